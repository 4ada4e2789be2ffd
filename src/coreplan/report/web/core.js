// Where the core pairs lie: points over two coordinates of the state, or the action. Pairs at one place, such as those of
// one state with several actions, are one point, and its area is the weight of all of them.
var corePairs = (function () {
  "use strict";
  var d = drawing, view = null, SPOT = 0.15;
  function start(data) {
    var host = document.getElementById("core-view");
    if (!host || !data || !data.core) return;
    var names = data.axes.map(function (a) { return a.fixed ? null : a.name; }).concat(["action"]);
    var known = names.map(function (_, i) { return i; }).filter(function (i) { return names[i] !== null; });
    if (!view || known.indexOf(view.x) < 0 || known.indexOf(view.y) < 0) view = { x: known[0], y: known[1] };
    var x = d.html("select"), y = d.html("select"), picture = d.svg("svg", { width: "100%", height: "280" });
    d.options(x, names, view.x);
    d.options(y, names, view.y);
    x.onchange = function () { view.x = Number(x.value); draw(); };
    y.onchange = function () { view.y = Number(y.value); draw(); };
    var axisName = d.html("p", { className: "axis-name" }), box = d.html("div", { className: "plot" }, [picture]);
    host.replaceChildren(d.html("div", { className: "controls" },
      [d.control("across", "core-x", x), d.control("up", "core-y", y)]),
      box, axisName);
    picture.setAttribute("role", "img");

    function axis(i) {
      if (i < data.axes.length) return data.axes[i];
      return { name: "action", low: 0, high: Math.max(data.actions.length - 1, 1), names: data.actions };
    }
    function of(k, i) { return i < data.axes.length ? data.core.states[k][i] : data.core.actions[k]; }
    function draw() {
      picture.replaceChildren();
      box.classList.toggle("named", d.room(axis(view.y)) > 8);
      var ax = wide(near(view.x)), ay = wide(near(view.y)), weights = data.core.weights;
      var places = new Map();
      data.core.states.forEach(function (_, k) {
        var at = of(k, view.x) + " " + of(k, view.y), known = places.get(at) || { k: k, weight: 0 };
        known.weight += weights ? weights[k] : 0;
        places.set(at, known);
      });
      var most = 0;
      places.forEach(function (place) { most = Math.max(most, place.weight); });
      d.frame(picture, ax, ay);
      d.svg("rect", { width: "100%", height: "100%", class: "edge" }, picture);
      places.forEach(function (place) {
        var sx = (of(place.k, view.x) - ax.low) / (ax.high - ax.low), sy = 1 - (of(place.k, view.y) - ay.low) / (ay.high - ay.low);
        if (!(sx >= 0 && sx <= 1 && sy >= 0 && sy <= 1)) return;
        var r = most > 0 ? Math.max(9 * Math.sqrt(place.weight / most), 0.8) : places.size > 300 ? 2 : 4;
        d.svg("circle", { cx: 100 * sx + "%", cy: 100 * sy + "%", r: r, class: "pair-point" }, picture);
      });
      axisName.textContent = called(view.x) + " across, " + called(view.y) + " up";
      picture.setAttribute("aria-label", "core pairs: " + axisName.textContent);
    }
    function near(i) { // the part of an axis with pairs, where they would else be one spot
      var whole = axis(i), all = data.core.states.map(function (_, k) { return of(k, i); });
      var low = all.reduce(function (a, b) { return Math.min(a, b); }), high = all.reduce(function (a, b) { return Math.max(a, b); });
      if (whole.names || !(high > low) || high - low > SPOT * (whole.high - whole.low)) return whole;
      return { name: whole.name, low: low, high: high, part: true };
    }
    function called(i) {
      var whole = axis(i);
      return whole.name + (near(i).part ? " (which goes from " + d.said(whole.low) + " to " + d.said(whole.high) + ")" : "");
    }
    function wide(a) {
      var room = 0.04 * (a.high - a.low) || 0.5;
      return { low: a.low - room, high: a.high + room, names: a.names };
    }
    draw();
  }
  return { start: start };
})();
