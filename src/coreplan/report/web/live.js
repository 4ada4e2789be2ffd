// Asks the run for news every two seconds, and says so when it has ended.
(function () {
  "use strict";
  var EVERY = 2000, mark = "", failures = 0;
  var said = document.createElement("p");
  said.className = "absent";
  said.setAttribute("role", "status");
  said.textContent = "Waiting for the run.";

  function put(text) {
    var news = new DOMParser().parseFromString("<main>" + text + "</main>", "text/html").querySelector("main");
    var main = document.getElementById("main");
    if (!main.children.length) main.replaceChildren.apply(main, Array.from(news.childNodes));
    else Array.from(news.children).forEach(function (part, at) { renew(main, part, at); });
    window.coreplanPage.begin();
  }
  function renew(main, part, at) { // sections whose controls the reader may be using keep them
    var old = part.id ? document.getElementById(part.id) : main.children[at];
    if (!old || old.parentElement !== main) { main.append(part); return; }
    if (old.isEqualNode(part) || old.contains(document.activeElement)) return;
    if (old.querySelector(".controls") && part.querySelector("#explorer-view, #core-view")) return;
    var open = Array.from(old.querySelectorAll("details"), function (d) { return d.open; });
    part.querySelectorAll("details").forEach(function (d, i) { d.open = Boolean(open[i]); });
    old.replaceWith(part);
  }
  function look() {
    fetch("content", { headers: mark ? { "If-None-Match": mark } : {} }).then(function (answer) {
      failures = 0;
      said.textContent = "Live: this page follows the run.";
      if (answer.status !== 200) return null;
      mark = answer.headers.get("ETag") || "";
      return answer.text();
    }).then(function (text) {
      if (text) put(text);
      window.setTimeout(look, EVERY);
    }).catch(function () {
      failures += 1;
      if (failures > 2) said.textContent = "The run has ended. What is above is the last that it showed.";
      else window.setTimeout(look, EVERY);
    });
  }
  document.querySelector(".top").after(said);
  look();
})();
