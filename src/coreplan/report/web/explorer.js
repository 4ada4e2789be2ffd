// What the policy does: two maps over two coordinates of the state, or over all states of a table, and one state in full.
var explorer = (function () {
  "use strict";
  var d = drawing, view = null, data, scores, shown, host, maps = [], timer = 0;
  var FINEST = 60, MOST = 6000, PATIENCE = 250, WARMING = 60; // cells of an axis, of a table; milliseconds for one map
  var ARROWS = { left: "\u2190", right: "\u2192", up: "\u2191", down: "\u2193", west: "\u2190", east: "\u2192",
                 north: "\u2191", south: "\u2193" };

  function start(given) {
    data = given;
    host = document.getElementById("explorer-view");
    if (!host || !data) return;
    scores = scoring.of(data);
    shown = data.axes.map(function (_, i) { return i; }).filter(function (i) { return !data.axes[i].fixed; });
    if (!view || view.state.length !== data.axes.length) {
      view = { x: shown[0], y: shown.length > 1 ? shown[1] : null, core: false, sample: false, columns: 0,
               state: data.axes.map(function (a) { return a.start; }) };
      if (view.y === null) view.columns = widest(count(data.axes[shown[0]]));
    }
    build();
    draw();
  }

  function count(axis) { return axis.high - axis.low + 1; }
  // The number of cells per row for n states of a table: the divisor of n, or of n - 1 (the last may be the end), nearest to
  // a square; one row for few states.
  function widest(n) {
    var best = n;
    [n, n - 1].some(function (m) {
      for (var c = Math.ceil(Math.sqrt(m)); c <= 2.5 * Math.sqrt(m); c++) if (m % c === 0 && m >= 9) { best = c; return true; }
      return false;
    });
    return n > 40 && best === n ? Math.ceil(Math.sqrt(n)) : best;
  }
  function isTable() {
    return view.y === null && data.axes[view.x].whole && count(data.axes[view.x]) <= MOST;
  }

  // The layout of a map: how many columns and rows, and the state in each cell.
  function nodes(axis, most) {
    if (axis.whole && count(axis) <= most) return range(axis.low, count(axis), 1);
    var step = (axis.high - axis.low) / most, found = range(axis.low + step / 2, most, step);
    return axis.whole ? Array.from(new Set(found.map(Math.round))) : found;
  }
  function range(first, n, step) { return Array.from({ length: n }, function (_, i) { return first + i * step; }); }
  function layout(most) {
    if (isTable()) {
      var all = range(data.axes[view.x].low, count(data.axes[view.x]), 1);
      return { table: true, columns: Math.min(view.columns, all.length), rows: Math.ceil(all.length / view.columns), all: all };
    }
    var given = scores.grid(view.x, view.y === null ? view.x : view.y);
    var xs = given ? given.xs : nodes(data.axes[view.x], view.y === null ? 200 : most);
    var ys = view.y === null ? [0] : given ? given.ys : nodes(data.axes[view.y], most);
    return { table: false, columns: xs.length, rows: ys.length, xs: xs, ys: ys };
  }
  function stateAt(grid, c, r) { // row 0 is the highest
    var state = view.state.slice();
    if (grid.table) {
      var k = r * grid.columns + c;
      if (k >= grid.all.length) return null;
      state[view.x] = grid.all[k];
    } else {
      state[view.x] = grid.xs[c];
      if (view.y !== null) state[view.y] = grid.ys[grid.rows - 1 - r];
    }
    return state;
  }
  function near(list, value) {
    var best = 0;
    list.forEach(function (v, i) { if (Math.abs(v - value) < Math.abs(list[best] - value)) best = i; });
    return best;
  }
  function cellOf(grid) {
    if (grid.table) {
      var k = near(grid.all, view.state[view.x]);
      return [k % grid.columns, Math.floor(k / grid.columns)];
    }
    return [near(grid.xs, view.state[view.x]), view.y === null ? 0 : grid.rows - 1 - near(grid.ys, view.state[view.y])];
  }
  function ask(state) { return scores.qValues(state, view.x, view.y === null ? view.x : view.y); }
  function price() { // milliseconds of one score; the first ones take longer, until the browser has compiled them
    var begin = performance.now(), last, probe;
    do {
      last = performance.now();
      for (probe = 0; probe < 50; probe++) ask(view.state);
    } while (performance.now() - begin < WARMING && performance.now() - last > 1);
    return (performance.now() - last) / 50;
  }
  function computed() {
    var most = FINEST;
    if (scores.exact && !isTable()) { // coarser where one score takes long
      most = Math.max(Math.min(Math.floor(Math.sqrt(PATIENCE / Math.max(price(), 1e-4))), FINEST), 12);
    }
    var grid = layout(most);
    grid.cells = [];
    for (var r = 0; r < grid.rows; r++) for (var c = 0; c < grid.columns; c++) {
      var state = stateAt(grid, c, r), q = state && ask(state);
      grid.cells.push(q ? { state: state, best: Math.max.apply(null, q), action: q.indexOf(Math.max.apply(null, q)) } : null);
    }
    return grid;
  }

  function build() {
    var x = d.html("select"), y = d.html("select"), core = d.html("input", { type: "checkbox" });
    var sample = d.html("input", { type: "checkbox" }), columns = d.html("input", { type: "number", min: 1, step: 1 });
    var names = data.axes.map(function (a) { return a.fixed ? null : a.name; });
    var controls = [];
    if (shown.length > 1) {
      d.options(x, names, view.x);
      d.options(y, names, view.y);
      x.onchange = function () { choose("x", "y", Number(x.value), x, y); };
      y.onchange = function () { choose("y", "x", Number(y.value), y, x); };
      controls.push(d.control("across", "map-x", x), d.control("up", "map-y", y));
    } else if (isTable()) {
      columns.value = view.columns;
      columns.max = count(data.axes[view.x]);
      columns.oninput = function () {
        view.columns = Math.min(Math.max(Math.round(Number(columns.value)) || 1, 1), count(data.axes[view.x]));
        later();
      };
      controls.push(d.control("states per row", "map-columns", columns));
    }
    [[core, "core", "core pairs", data.core], [sample, "sample", "trajectories", data.sample.length]].forEach(function (one) {
      if (!one[3]) return;
      one[0].checked = view[one[1]];
      one[0].onchange = function () { view[one[1]] = one[0].checked; later(); };
      controls.push(d.control("show " + one[2], "map-" + one[1], one[0]));
    });
    maps = [["action", "The action it takes"], ["score", "The score of that action"]].map(function (one) {
      var picture = d.svg("svg", { width: "100%", height: "100%" });
      var box = d.html("div", { className: "plot map", tabIndex: 0, id: "map-" + one[0] }, [picture]);
      box.setAttribute("role", "application");
      box.setAttribute("aria-label", one[1] + ": a map; the arrow keys move the state");
      box.addEventListener("keydown", move);
      box.addEventListener("click", click);
      var legend = d.html("div", { className: "legend" });
      return { kind: one[0], box: box, picture: picture, legend: legend,
               figure: d.html("figure", {}, [d.html("h3", { textContent: one[1], className: "chart-title" }), box,
                                             d.html("p", { className: "axis-name" }), legend]) };
    });
    var numbers = d.html("details", { id: "map-numbers" }, [d.html("summary", { textContent: "The numbers of the map" })]);
    numbers.addEventListener("toggle", function () { fill(numbers); });
    host.replaceChildren(
      d.html("div", { className: "controls" }, controls),
      d.html("div", { className: "maps" }, maps.map(function (m) { return m.figure; })),
      numbers, d.html("h3", { textContent: "At one state" }), inputs(),
      d.html("p", { id: "readout", className: "reading", ariaLive: "polite" }), d.html("div", { id: "at-state" })
    );
  }
  function choose(mine, other, value, select, rest) {
    if (view[other] === value) { view[other] = view[mine]; rest.value = view[other]; }
    if (!scores.has(mine === "x" ? value : view.x, mine === "x" ? view.y : value)) { select.value = view[mine]; return; }
    view[mine] = value;
    later();
  }
  function inputs() {
    var fields = data.axes.map(function (axis, i) {
      if (axis.fixed) return "";
      var input = d.html("input", { type: "number", value: view.state[i], step: axis.whole ? 1 : "any" });
      input.disabled = !scores.exact && i !== view.x && i !== view.y;
      input.oninput = function () {
        if (input.value === "" || !isFinite(input.valueAsNumber)) return;
        view.state[i] = input.valueAsNumber;
        later();
      };
      return d.control(axis.name, "state-" + i, input);
    });
    return d.html("fieldset", { className: "controls state" }, [d.html("legend", { textContent: "The state" })].concat(fields));
  }

  function later() {
    window.clearTimeout(timer);
    timer = window.setTimeout(draw, 30);
  }
  function move(event) {
    var by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!by) return;
    event.preventDefault();
    var at = cellOf(view.grid);
    go(at[0] + by[0], at[1] + by[1]);
  }
  function click(event) {
    var box = event.currentTarget.firstChild.getBoundingClientRect();
    go(Math.floor((event.clientX - box.left) / box.width * view.grid.columns),
       Math.floor((event.clientY - box.top) / box.height * view.grid.rows));
  }
  function go(c, r) {
    var grid = view.grid;
    var state = c >= 0 && r >= 0 && c < grid.columns && r < grid.rows ? stateAt(grid, c, r) : null;
    if (!state) return;
    view.state = state.map(function (v) { return Number(v.toPrecision(6)); });
    data.axes.forEach(function (axis, i) {
      var input = document.getElementById("state-" + i);
      if (input) input.value = view.state[i];
    });
    draw();
  }

  function draw() {
    var grid = view.grid = computed();
    var values = grid.cells.filter(Boolean).map(function (cell) { return cell.best; }).filter(isFinite);
    var low = Math.min.apply(null, values), high = Math.max.apply(null, values);
    maps.forEach(function (map) {
      function colour(cell) {
        return map.kind === "action" ? d.ofAction(cell.action, data.actions.length)
          : d.scale(high > low ? (cell.best - low) / (high - low) : 0.5);
      }
      paint(map, grid, colour);
      key(map, grid, low, high);
      map.figure.querySelector(".axis-name").textContent = grid.table
        ? "states " + grid.all[0] + " to " + grid.all[grid.all.length - 1] + ", row by row"
        : data.axes[view.x].name + (view.y === null ? "" : " across, " + data.axes[view.y].name + " up");
    });
    var numbers = document.getElementById("map-numbers");
    if (numbers.open) fill(numbers);
    tell();
  }
  function paint(map, grid, colour) {
    var picture = map.picture;
    picture.replaceChildren();
    map.box.classList.toggle("bare", grid.table);
    picture.setAttribute("height", grid.table ? Math.min(Math.max(grid.rows * 44, 44), 420)
      : view.y === null ? 60 : 300);
    var cells = d.svg("svg", { width: "100%", height: "100%", viewBox: "0 0 " + grid.columns + " " + grid.rows,
                               preserveAspectRatio: "none", class: "cells" }, picture);
    for (var r = 0; r < grid.rows; r++) { // neighbours of one colour are one rectangle
      for (var c = 0, next; c < grid.columns; c = next) {
        var cell = grid.cells[r * grid.columns + c], fill = cell && colour(cell);
        for (next = c + 1; next < grid.columns; next++) {
          var other = grid.cells[r * grid.columns + next];
          if ((other && colour(other)) !== fill) break;
        }
        if (fill) d.svg("rect", { x: c, y: r, width: next - c, height: 1.02, fill: fill }, cells);
      }
    }
    if (grid.table && grid.columns <= 24 && grid.rows <= 12) written(map, grid, colour, picture);
    if (!grid.table) d.frame(picture, edges(grid.xs, data.axes[view.x]), view.y !== null && edges(grid.ys, data.axes[view.y]));
    over(grid, picture);
    var at = cellOf(grid);
    d.svg("rect", { x: 100 * at[0] / grid.columns + "%", y: 100 * at[1] / grid.rows + "%", width: 100 / grid.columns + "%",
                    height: 100 / grid.rows + "%", class: "here" }, picture);
  }
  function edges(list, axis) { // a map's edges are half a cell beyond its outer nodes
    var half = list.length > 1 ? (list[list.length - 1] - list[0]) / (list.length - 1) / 2 : 0.5;
    return { low: list[0] - half, high: list[list.length - 1] + half, whole: axis.whole };
  }
  function written(map, grid, colour, picture) {
    grid.cells.forEach(function (cell, k) {
      if (!cell) return;
      var c = k % grid.columns, r = Math.floor(k / grid.columns), name = String(data.actions[cell.action]);
      var text = map.kind === "action" ? ARROWS[name.toLowerCase()] || (name.length < 4 ? name : String(cell.action))
        : d.said(Number(cell.best.toPrecision(3)));
      var made = d.svg("text", { x: 100 * (c + 0.5) / grid.columns + "%", y: 100 * (r + 0.5) / grid.rows + "%", dy: 5,
                                 "text-anchor": "middle", class: d.light(colour(cell)) ? "on-light" : "on-dark" }, picture);
      made.textContent = map.kind === "score" && grid.columns > 8 ? "" : text;
    });
  }
  function place(grid, state) { // of a state in the picture, as shares; null if it is outside
    var x, y;
    if (grid.table) {
      var k = grid.all.indexOf(state[view.x]);
      if (k < 0) return null;
      x = (k % grid.columns + 0.5) / grid.columns;
      y = (Math.floor(k / grid.columns) + 0.5) / grid.rows;
    } else {
      var ex = edges(grid.xs, data.axes[view.x]), ey = view.y !== null && edges(grid.ys, data.axes[view.y]);
      x = (state[view.x] - ex.low) / (ex.high - ex.low);
      y = ey ? 1 - (state[view.y] - ey.low) / (ey.high - ey.low) : 0.5;
    }
    return x >= 0 && x <= 1 && y >= 0 && y <= 1 ? [x, y] : null;
  }
  function over(grid, picture) {
    if (view.core && data.core) data.core.states.forEach(function (state) {
      var at = place(grid, state);
      if (at) d.svg("circle", { cx: 100 * at[0] + "%", cy: 100 * at[1] + "%", r: 2.5, class: "pair" }, picture);
    });
    if (!view.sample) return;
    var inner = d.svg("svg", { width: "100%", height: "100%", viewBox: "0 0 1000 1000", preserveAspectRatio: "none" }, picture);
    data.sample.forEach(function (states) {
      var path = "", down = false;
      states.forEach(function (state) {
        var at = place(grid, state);
        if (at) path += (down ? "L" : "M") + (1000 * at[0]).toFixed(1) + " " + (1000 * at[1]).toFixed(1);
        down = Boolean(at);
      });
      d.svg("path", { d: path, class: "walk under" }, inner);
      d.svg("path", { d: path, class: "walk" }, inner);
    });
  }
  function key(map, grid, low, high) {
    map.legend.replaceChildren();
    if (map.kind === "score") {
      var bar = d.svg("svg", { width: 120, height: 12, "aria-hidden": "true" });
      for (var i = 0; i < 24; i++) d.svg("rect", { x: 5 * i, y: 0, width: 5.3, height: 12, fill: d.scale(i / 23) }, bar);
      map.legend.append(d.html("span", { textContent: d.said(low) + " " }), bar,
                        d.html("span", { textContent: " " + d.said(high) }));
      return;
    }
    var used = new Set(grid.cells.filter(Boolean).map(function (cell) { return cell.action; }));
    data.actions.forEach(function (name, a) {
      if (!used.has(a)) return;
      var box = d.svg("svg", { width: 12, height: 12, "aria-hidden": "true" });
      d.svg("rect", { width: 12, height: 12, rx: 2, fill: d.ofAction(a, data.actions.length) }, box);
      map.legend.append(d.html("span", { className: "key" }, [box, " " + name]));
    });
  }
  function fill(numbers) {
    while (numbers.children.length > 1) numbers.lastChild.remove();
    if (!numbers.open) return;
    var axes = view.y === null ? [view.x] : [view.x, view.y];
    var head = axes.map(function (i) { return data.axes[i].name; }).concat(["action", "score"]);
    numbers.append(listed(head, view.grid.cells.filter(Boolean).map(function (cell) {
      return axes.map(function (i) { return d.said(cell.state[i]); }).concat([data.actions[cell.action], d.said(cell.best)]);
    })));
  }
  function listed(head, rows) {
    var top = d.html("tr", {}, head.map(function (name, i) {
      var words = i === 0 && rows.length && rows[0][0] instanceof Node;
      return d.html("th", { scope: "col", textContent: name, className: words ? "" : "number" });
    }));
    var body = rows.map(function (row) {
      return d.html("tr", {}, row.map(function (text) {
        return text instanceof Node ? text : d.html("td", { className: "number", textContent: text });
      }));
    });
    var box = d.html("div", { className: "scroll", tabIndex: 0 }, [
      d.html("table", {}, [d.html("thead", {}, [top]), d.html("tbody", {}, body)])]);
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", "numbers");
    return box;
  }
  function tell() {
    var pair = [view.x, view.y === null ? view.x : view.y];
    var q = scores.qValues(view.state, pair[0], pair[1]), p = scores.probabilities(view.state, pair[0], pair[1]);
    var readout = document.getElementById("readout"), table = document.getElementById("at-state");
    if (!q || !p) {
      readout.textContent = "The features of the policy do not know this state.";
      table.replaceChildren();
      return;
    }
    var best = q.indexOf(Math.max.apply(null, q));
    var state = scores.at(view.state, pair[0], pair[1]);
    readout.textContent = (scores.exact ? "At " : "Computed at the nearest point of a grid, ") + shown.map(function (i) {
      return data.axes[i].name + " " + d.said(state[i]);
    }).slice(0, 8).join(", ") + ": " + data.actions[best] + ", with probability " + d.said(Number(p[best].toFixed(4))) + ".";
    var rows = data.actions.map(function (name, a) {
      var bar = d.svg("svg", { width: "100%", height: 14, "aria-hidden": "true" });
      d.svg("rect", { x: 0, y: 2, width: 100 * p[a] + "%", height: 10, fill: d.ofAction(a, data.actions.length) }, bar);
      return [d.html("th", { scope: "row", textContent: name }), d.html("td", { className: "bar" }, [bar]),
              d.said(Number(p[a].toPrecision(6))), q[a] === -Infinity ? "not available" : d.said(q[a])];
    });
    table.replaceChildren(listed(["action", "", "probability", data.score], rows));
  }
  return { start: start };
})();
