// Begins when the page is there.
(function () {
  "use strict";
  function data() {
    var block = document.getElementById("explorer");
    return block ? JSON.parse(block.textContent) : null;
  }
  window.coreplanPage = { begin: function () { var given = data(); explorer.start(given); corePairs.start(given); } };
  document.addEventListener("DOMContentLoaded", window.coreplanPage.begin);
})();
