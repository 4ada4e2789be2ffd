// What a policy does at a state: exactly, where its numbers are in the page, else from grids that were computed before.
var scoring = (function () {
  "use strict";
  function softmax(q, scale) { // the greedy policy, an infinite scale, takes the first best action
    var best = Math.max.apply(null, q);
    if (scale === null) return q.map(function (v, i) { return i === q.indexOf(best) ? 1 : 0; });
    var weights = q.map(function (v) { return v === -Infinity ? 0 : Math.exp(scale * (v - best)); });
    var total = weights.reduce(function (a, b) { return a + b; }, 0);
    return weights.map(function (w) { return w / total; });
  }
  function nearest(nodes, value) {
    var best = 0;
    nodes.forEach(function (node, i) { if (Math.abs(node - value) < Math.abs(nodes[best] - value)) best = i; });
    return best;
  }
  function fromGrids(data) {
    function find(x, y) {
      return data.grids.find(function (g) { return (g.x === x && g.y === y) || (g.x === y && g.y === x); });
    }
    return {
      exact: false,
      at: function (state, x, y) { // the state of the grid that stands for this one
        var g = find(x, y), near = data.axes.map(function (axis) { return axis.start; });
        near[g.x] = g.xs[nearest(g.xs, state[g.x])];
        if (g.y !== g.x) near[g.y] = g.ys[nearest(g.ys, state[g.y])];
        return near;
      },
      grid: function (x, y) {
        var g = find(x, y);
        return g && { xs: g.x === x ? g.xs : g.ys, ys: g.x === x ? g.ys : g.xs };
      },
      has: function (x, y) { return Boolean(find(x, y)); },
      qValues: function (state, x, y) {
        var g = find(x, y);
        var row = g.q[nearest(g.ys, state[g.y]) * g.xs.length + nearest(g.xs, state[g.x])];
        if (g.x === g.y) row = g.q[nearest(g.xs, state[g.x])];
        return row.map(function (v) { return v === null ? -Infinity : v; });
      },
      probabilities: function (state, x, y) { return softmax(this.qValues(state, x, y), data.scale); }
    };
  }
  // Long lists of numbers are in the page as the bytes that a computer keeps, which take half the room of text.
  var BYTES = { f8: Float64Array, u1: Uint8Array, u2: Uint16Array, i4: Int32Array };
  function unpacked(value) {
    if (Array.isArray(value)) return value.map(unpacked);
    if (value === null || typeof value !== "object") return value;
    if (typeof value.packed !== "string") {
      return Object.fromEntries(Object.entries(value).map(function (pair) { return [pair[0], unpacked(pair[1])]; }));
    }
    var bytes = Uint8Array.from(window.atob(value.packed), function (letter) { return letter.charCodeAt(0); });
    var list = Array.from(new BYTES[value.type](bytes.buffer)), rows = [];
    if (!value.width) return list;
    for (var i = 0; i < list.length; i += value.width) rows.push(list.slice(i, i + value.width));
    return rows;
  }
  function fromNumbers(data) {
    var policy = window.coreplan.policy(unpacked(data.spec));
    function asked(what, state) { // null where the features do not know the state
      try { return Array.from(policy[what](state)); } catch (error) { return null; }
    }
    return {
      exact: true,
      at: function (state) { return state; },
      grid: function () { return null; },
      has: function () { return true; },
      qValues: function (state) { return asked("qValues", state); },
      probabilities: function (state) { return asked("probabilities", state); }
    };
  }
  return { of: function (data) { return data.spec && window.coreplan ? fromNumbers(data) : fromGrids(data); } };
})();
