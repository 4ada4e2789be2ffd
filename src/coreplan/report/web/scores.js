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
  function fromNumbers(data) {
    var policy = window.coreplan.policy(data.spec);
    function asked(what, state) { // null where the features do not know the state
      try { return Array.from(policy[what](state)); } catch (error) { return null; }
    }
    return {
      exact: true,
      grid: function () { return null; },
      has: function () { return true; },
      qValues: function (state) { return asked("qValues", state); },
      probabilities: function (state) { return asked("probabilities", state); }
    };
  }
  return { of: function (data) { return data.spec && window.coreplan ? fromNumbers(data) : fromGrids(data); } };
})();
