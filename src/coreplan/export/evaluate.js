/* Policies of coreplan, computed from their description (coreplan.export.policy_spec): coreplan.policy(spec) answers
   qValues(state) and probabilities(state) for one state. The kinds of maps are those of formulas.py, computed alike. No
   dependencies; a description is data, and nothing in it is run. */
var coreplan = (function () {
  "use strict";

  var range = function (n) { return Array.from({ length: n }, function (_, i) { return i; }); };
  var sum = function (list) { return list.reduce(function (a, b) { return a + b; }, 0); };
  var product = function (list) { return list.reduce(function (a, b) { return a * b; }, 1); };
  // Comparisons with what is not a number are false, so it passes.
  var clip = function (x, low, high) { return x < low ? low : x > high ? high : x; };
  var whole = function (x) { return Number.isNaN(x) ? 0 : x; };
  var modulo = function (x, period) { var rest = x % period; return rest < 0 ? rest + period : rest; };
  var unit = function (feature) { return { index: [feature], weight: [1] }; };
  var even = function (x) { // the nearest whole number, the even one of two
    var down = Math.floor(x), rest = x - down;
    return rest < 0.5 ? down : rest > 0.5 ? down + 1 : down % 2 === 0 ? down : down + 1;
  };

  function place(at, shape) { // the number of a place on a grid
    return shape.reduce(function (number, count, i) { return number * count + at[i]; }, 0);
  }

  function located(x, node) { // the cell on a regular grid, and the place within it
    var z = node.shape.map(function (count, i) { return clip((x[i] - node.low[i]) / node.step[i], 0, count - 1); });
    var cell = z.map(function (t, i) { return whole(Math.min(Math.floor(t), node.shape[i] - 2)); });
    return { cell: cell, part: z.map(function (t, i) { return t - cell[i]; }) };
  }

  function cornerWeights(part) {
    return range(Math.pow(2, part.length)).map(function (c) {
      return product(part.map(function (t, i) { return (c >> i) & 1 ? t : 1 - t; }));
    });
  }

  function gridCorners(cell, shape) {
    return range(Math.pow(2, shape.length)).map(function (c) {
      return place(cell.map(function (k, i) { return k + ((c >> i) & 1); }), shape);
    });
  }

  function lookedUp(x, count) { return Number.isInteger(x) && x >= 0 && x < count; }

  // Each kind is made once per description, and answers a function of a state. Base functions: {index, weight}.

  var kinds = {
    one_hot: function (node) {
      return function (x) {
        return lookedUp(x, node.count) ? unit(x) : { index: [0], weight: [NaN] };
      };
    },
    aggregation: function (node) {
      return function (x) {
        return lookedUp(x, node.groups.length) ? unit(node.groups[x]) : { index: [0], weight: [NaN] };
      };
    },
    interpolation: function (node) {
      return function (x) {
        var at = located(x, node);
        return { index: gridCorners(at.cell, node.shape), weight: cornerWeights(at.part) };
      };
    },
    simplicial: function (node) {
      return function (x) {
        var at = located(x, node), cell = at.cell.slice(), index = [], weight = [], before = 1;
        var order = range(cell.length).sort(function (i, j) { return at.part[j] - at.part[i] || i - j; });
        order.concat([-1]).forEach(function (i) {
          var after = i < 0 ? 0 : at.part[i];
          index.push(place(cell, node.shape));
          weight.push(before - after);
          before = after;
          if (i >= 0) cell[i] += 1;
        });
        return { index: index, weight: weight };
      };
    },
    rectilinear: function (node) {
      return function (x) {
        var cell = [], part = [];
        node.shape.forEach(function (count, i) {
          var k = 0, axis = node.nodes[i];
          while (k < count - 2 && x[i] >= axis[k + 1]) k += 1;
          cell.push(k);
          part.push(clip((x[i] - axis[k]) / (axis[k + 1] - axis[k]), 0, 1));
        });
        return { index: gridCorners(cell, node.shape), weight: cornerWeights(part) };
      };
    },
    tile_coding: function (node) {
      var shape = node.shape.map(function (n) { return n + 1; }), tiles = product(shape);
      return function (x) {
        var known = !node.low.some(function (_, i) { return Number.isNaN(x[i]); });
        var index = node.shifts.map(function (shift, t) {
          return t * tiles + place(shift.map(function (s, i) {
            var z = (x[i] - node.low[i]) / node.width[i] * node.shape[i] + s;
            return whole(Math.floor(clip(z, 0, node.shape[i])));
          }), shape);
        });
        return { index: index, weight: index.map(function () { return known ? 1 / index.length : NaN; }) };
      };
    },
    polynomial: function (node) {
      return function (x) {
        var z = node.low.map(function (low, i) { return clip(2 * (x[i] - low) / node.width[i] - 1, -1, 1); });
        return { index: range(node.powers.length), weight: node.powers.map(function (powers) {
          return product(powers.map(function (p, i) { return Math.pow(z[i], p); }));
        }) };
      };
    },
    fourier: function (node) {
      return function (x) {
        return { index: range(node.coefficients.length), weight: node.coefficients.map(function (row) {
          var angle = 0, value = 1;
          row.forEach(function (c, i) {
            var z = (x[i] - node.low[i]) / node.width[i];
            if (!node.periodic[i]) angle += c * z;
            else if (c % 2 === 1) value *= Math.cos(Math.PI * (c + 1) * z);
            else value *= c > 0 ? Math.sin(Math.PI * c * z) : 1 + 0 * z;
          });
          return value * Math.cos(Math.PI * angle);
        }) };
      };
    },
    radial: function (node) {
      return function (x) {
        var half = node.centres.map(function (centre) {
          return sum(centre.map(function (c, i) {
            var z = (x[i] - node.low[i]) / node.width[i] - c;
            if (node.periodic[i]) z -= even(z);
            return z / node.scale * (z / node.scale) / 2;
          }));
        });
        var least = node.normalise ? half.reduce(function (a, b) { return Math.min(a, b); }) : 0;
        var weight = half.map(function (h) { return Math.exp(least - h); });
        if (node.normalise) {
          var total = sum(weight);
          weight = weight.map(function (w) { return w / total; });
        }
        if (node.intercept) weight.push(1);
        return { index: range(weight.length), weight: weight };
      };
    },
    tree: function (node) {
      var numbers = new Map(node.ticks.map(function (at, j) { return [at.join(), j]; }));
      return function (x) {
        var all = true;
        var at = node.sizes.map(function (size, i) {
          var u = (x[i] - node.low[i]) / node.width[i];
          u = node.periodic[i] ? u - Math.floor(u) : clip(u, 0, 1);
          var t = u * size, near = even(t);
          if (!(Math.abs(t - near) < 1e-6)) {
            all = false;
            return t;
          }
          return node.periodic[i] && near === size ? 0 : near;
        });
        if (all && numbers.has(at.join())) return unit(numbers.get(at.join()));
        var k = 0;
        for (var step = 0; step < node.depth; step += 1) {
          k = node.child[k] + (at[node.axis[k]] >= node.middle[k] ? 1 : 0);
        }
        k = node.cell[k];
        var part = at.map(function (t, i) { return (t - node.lo[k][i]) / (node.hi[k][i] - node.lo[k][i]); });
        return { index: node.corners[k], weight: cornerWeights(part) };
      };
    },
    queue_polynomial: function (node) {
      return function (x) {
        var z = range(4).map(function (i) { return x[i] / node.largest; }), weight = [1].concat(z);
        z.forEach(function (a, i) { z.slice(i).forEach(function (b) { weight.push(a * b); }); });
        range(4).forEach(function (i) { weight.push(x[i] === 0 ? 1 : 0); });
        return { index: range(19), weight: weight };
      };
    },
    queue_politex: function (node) {
      return function (x) {
        var weight = [1].concat(range(4).map(function (i) { return x[i] / node.buffer; }));
        node.groups.forEach(function (group) {
          weight.push(group.every(function (member, i) { return member !== 1 || x[i] > 0; }) ? 1 : 0);
        });
        return { index: range(weight.length), weight: weight };
      };
    },

    // Maps of another map's states or base functions.

    wrapped: function (node, base) {
      return function (x) {
        return base(node.low.map(function (low, i) {
          if (!node.periodic[i] || (x[i] >= low && x[i] < node.high[i])) return x[i];
          return low + modulo(x[i] - low, node.high[i] - low);
        }));
      };
    },
    cos_sin: function (node, base) {
      return function (x) {
        var columns = [];
        node.low.forEach(function (low, i) {
          var angle = 2 * Math.PI * (x[i] - low) / node.width[i];
          if (node.periodic[i]) columns.push(Math.cos(angle), Math.sin(angle));
          else columns.push(x[i]);
        });
        return base(columns);
      };
    },
    folded: function (node, base) {
      return function (x) {
        var phi = base(x);
        return { index: phi.index.map(function (i) { return node.fold[i]; }), weight: phi.weight };
      };
    },
    own_end: function (node, base) {
      return function (x) { return x[node.column] > node.above ? unit(node.feature) : base(x); };
    },

    // Features: one {index, weight} per action, null for an action that cannot be taken.

    copied: function (node, base) {
      return function (x) {
        var phi = base(x);
        return range(node.n_actions).map(function (a) {
          return { index: phi.index.map(function (i) { return i * node.n_actions + a; }), weight: phi.weight };
        });
      };
    },
    table: function (node) {
      return function (x) {
        var row = lookedUp(x, node.table.length) ? node.table[x] : node.table[0].map(function () { return [NaN]; });
        return row.map(function (weight) { return { index: range(weight.length), weight: weight }; });
      };
    },
    sparse_table: function (node) {
      return function (x) {
        var known = lookedUp(x, node.weight.length);
        return node.weight[known ? x : 0].map(function (weight, a) {
          return known ? { index: node.index[x][a], weight: weight } : { index: [0], weight: [NaN] };
        });
      };
    },
    coordinates: function (node) {
      return function (x) {
        var outside = 0, known = true;
        var weight = node.low.map(function (low, i) {
          var u = (x[i] - low) / node.width[i];
          if (x[i] < node.least[i] || x[i] > node.most[i]) outside = 1;
          if (node.integer[i] && Math.abs(x[i] - Math.round(x[i])) > 1e-6) known = false;
          if (!node.finite[i]) return Math.asinh(x[i]) / 711;
          return node.periodic[i] ? u - Math.floor(u) : clip(u, 0, 1);
        }).concat([outside]);
        if (!known) weight = weight.map(function () { return NaN; });
        return range(node.n_actions).map(function () { return { index: range(weight.length), weight: weight }; });
      };
    },
    shared_end: function (node, base) {
      return function (x, mask) {
        var phi = base(x, mask);
        return x[node.column] > node.above ? phi.map(function () { return unit(node.coordinate); }) : phi;
      };
    },
    terminal: function (node, base) {
      return function (x, mask) {
        var phi = base(x.slice(0, -1), mask), last = x[x.length - 1];
        if (last === 0) return phi;
        return phi.map(function () { return last === 1 ? unit(node.coordinate) : { index: [0], weight: [NaN] }; });
      };
    },
    time: function (node, base) {
      return function (x, mask) {
        var clock = x[x.length - 1], nodes = node.nodes, j = 0;
        var known = clock >= 0 && clock <= nodes[nodes.length - 1] && Number.isInteger(clock);
        while (j + 2 < nodes.length && clock >= nodes[j + 1]) j += 1;
        var next = Math.min(j + 1, nodes.length - 1);
        var z = known ? (clock - nodes[j]) / Math.max(nodes[next] - nodes[j], 1) : NaN;
        var block = function (b) { return function (i) { return i + node.width * b; }; };
        return base(x.slice(0, -1), mask).map(function (phi) {
          return phi && {
            index: phi.index.map(block(j)).concat(phi.index.map(block(next))),
            weight: phi.weight.map(function (w) { return w * (1 - z); })
              .concat(phi.weight.map(function (w) { return w * z; })),
          };
        });
      };
    },
    number: function (node, base) {
      return function (x, mask) { return base(even(x[0]), mask); };
    },
    masked: function (node, base) {
      return function (x, mask) {
        var row = lookedUp(x, node.allowed.length) ? node.allowed[x] : [];
        return base(x, mask).map(function (phi, a) { return row[a] === false ? null : phi; });
      };
    },
    masked_by_input: function (node, base) {
      return function (x, mask) {
        return base(x, mask).map(function (phi, a) { return mask[a] ? phi : null; });
      };
    },
    given: function () {
      return function (phi) {
        return phi.map(function (row) {
          return row[0] > -1.7e308 ? { index: range(row.length), weight: row } : null;
        });
      };
    },
  };

  function compose(node) {
    if (!Object.prototype.hasOwnProperty.call(kinds, node.kind)) {
      throw new Error("The policy has features of a kind that this evaluator does not know.");
    }
    return kinds[node.kind](node, node.base ? compose(node.base) : null);
  }

  function policy(spec) {
    if (spec.format !== "coreplan policy description" || spec.version !== 1) {
      throw new Error("This is no description of a policy that this evaluator can read.");
    }
    var features = compose(spec.features), columns = spec.columns.length;
    var optional = spec.terminal === "optional" ? 1 : 0;

    function ready(state) {
      if (spec.input === "phi") return state;
      if (spec.input === "number") return Array.isArray(state) ? state[0] : state;
      if (state.length === columns) return state;
      if (optional && state.length === columns - 1) return state.concat([0]);
      throw new Error("A state has " + columns + " numbers here; got " + state.length + ".");
    }

    function qValues(state, mask) {
      if (spec.mask && !(Array.isArray(mask) && mask.length === spec.n_actions)) {
        throw new Error("This policy needs to know which actions are allowed: a list of true and false.");
      }
      return features(ready(state), mask).map(function (phi) {
        if (phi === null) return -Infinity;
        var q = sum(phi.weight.map(function (w, l) { return w * spec.theta[phi.index[l]]; }));
        if (Number.isNaN(q)) throw new Error("The features do not know this state.");
        return q;
      });
    }

    function probabilities(state, mask) {
      var q = qValues(state, mask), best = q.reduce(function (b, value, a) { return value > q[b] ? a : b; }, 0);
      if (q[best] === -Infinity) throw new Error("Every action of this state is forbidden.");
      if (spec.scale === "infinity") return q.map(function (_, a) { return a === best ? 1 : 0; });
      var weight = q.map(function (value) { return Math.exp(spec.scale * (value - q[best])); }), total = sum(weight);
      return weight.map(function (w) { return w / total; });
    }

    return { qValues: qValues, probabilities: probabilities };
  }

  return { policy: policy };
})();
