// Light or dark: what the reader's system asks for, until the button says otherwise.
(function () {
  "use strict";
  var KEY = "coreplan-theme";
  var root = document.documentElement;
  function stored() {
    try { return window.localStorage.getItem(KEY); } catch (error) { return null; }
  }
  function dark() {
    var told = root.dataset.theme;
    return told ? told === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
  }
  var before = stored();
  if (before === "light" || before === "dark") root.dataset.theme = before;
  document.addEventListener("DOMContentLoaded", function () {
    var button = document.getElementById("theme");
    if (!button) return;
    function say() {
      button.textContent = dark() ? "Light" : "Dark";
      button.setAttribute("aria-label", "Switch to " + (dark() ? "light" : "dark") + " colours");
    }
    button.hidden = false;
    button.addEventListener("click", function () {
      root.dataset.theme = dark() ? "light" : "dark";
      try { window.localStorage.setItem(KEY, root.dataset.theme); } catch (error) { /* a file may have no storage */ }
      say();
    });
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", say);
    say();
  });
})();
