// Pieces of drawings that the explorer and the picture of the core pairs share.
var drawing = (function () {
  "use strict";
  var LETTER = 6.5, SHORTEST = 9, LONGEST = 18; // the width of a letter beside an axis; letters of a name there
  var SPACE = "http://www.w3.org/2000/svg";
  // Wong's colours for the colour-blind, in an order in which neighbours differ most; more actions than these get a scale.
  var ACTIONS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#6b6b6b"];
  var SCALE = [[0, 34, 78], [53, 69, 108], [102, 105, 112], [148, 142, 119], [200, 184, 102], [254, 232, 56]]; // cividis

  function svg(tag, attributes, parent) {
    var made = document.createElementNS(SPACE, tag);
    Object.keys(attributes || {}).forEach(function (name) { made.setAttribute(name, attributes[name]); });
    if (parent) parent.appendChild(made);
    return made;
  }
  function html(tag, properties, children) {
    var made = document.createElement(tag);
    Object.keys(properties || {}).forEach(function (name) {
      if (name in made) made[name] = properties[name];
      else made.setAttribute(name, properties[name]);
    });
    (children || []).forEach(function (child) { made.append(child); });
    return made;
  }
  function scale(share) {
    var at = Math.min(Math.max(share, 0), 1) * (SCALE.length - 1);
    var k = Math.min(Math.floor(at), SCALE.length - 2);
    return "rgb(" + SCALE[k].map(function (v, i) { return Math.round(v + (at - k) * (SCALE[k + 1][i] - v)); }) + ")";
  }
  function ofAction(action, count) {
    return count <= ACTIONS.length ? ACTIONS[action] : scale(action / (count - 1));
  }
  function light(colour) { // whether black text stands out on it
    var rgb = colour[0] === "#"
      ? [1, 3, 5].map(function (i) { return parseInt(colour.slice(i, i + 2), 16); })
      : colour.match(/\d+/g).map(Number);
    return 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2] > 140;
  }
  function said(value) {
    if (value === null || value === undefined || !isFinite(value)) return "\u2013";
    var digits = Math.abs(value) >= 1e6 || (value !== 0 && Math.abs(value) < 1e-3) ? value.toExponential(3) : null;
    return digits || String(Number(value.toPrecision(5)));
  }
  function ticks(low, high, most) {
    var width = high - low;
    if (!(width > 0)) return [low];
    var power = Math.pow(10, Math.floor(Math.log10(width / most)));
    var steps = [1, 2, 2.5, 5, 10, 20];
    for (var i = 0; i < steps.length; i++) {
      var step = steps[i] * power;
      var first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
      if (last - first + 1 <= most) {
        var found = [];
        for (var k = first; k <= last; k++) found.push(Number((k * step).toPrecision(12)));
        return found;
      }
    }
    return [low];
  }
  function label(text, x, y, anchor, dx, dy, parent) {
    svg("text", { x: x, y: y, "text-anchor": anchor, dx: dx, dy: dy }, parent).textContent = text;
  }
  // Both axes of a picture: numbers along the left and the lower edge; low and high are at the edges. An axis of things
  // that are counted has their names instead.
  function frame(parent, x, y) {
    var along = marks(x, x.names ? Math.max(Math.min(5, Math.floor(parent.clientWidth / LETTER / SHORTEST)), 2) : 5);
    var fits = Math.max(Math.floor(parent.clientWidth / along.length / LETTER), SHORTEST);
    along.forEach(function (t) {
      var share = (t - x.low) / (x.high - x.low);
      var anchor = share < 0.04 ? "start" : share > 0.96 ? "end" : "middle";
      label(named(x, t, fits), 100 * share + "%", "100%", anchor, 0, 17, parent);
    });
    if (!y) return;
    marks(y, y.names ? 12 : 5).forEach(function (t) {
      label(named(y, t, LONGEST), "0", 100 * (1 - (t - y.low) / (y.high - y.low)) + "%", "end", -7, 4, parent);
    });
  }
  function marks(axis, most) {
    return ticks(axis.low, axis.high, most).filter(function (t) { return !axis.names || Number.isInteger(t); });
  }
  function named(axis, t, most) {
    if (!axis.names) return said(t);
    var name = axis.names[t] || "";
    return name.length > most ? name.slice(0, most - 1) + "\u2026" : name;
  }
  function room(axis) { // the letters that the names along a vertical axis need
    return (axis.names || []).reduce(function (most, name) { return Math.min(Math.max(most, name.length), LONGEST); }, 0);
  }
  function options(select, names, chosen) {
    select.replaceChildren();
    names.forEach(function (name, i) { if (name !== null) select.append(new Option(name, i, false, i === chosen)); });
  }
  function control(name, id, input) {
    input.id = id;
    var style = input.type === "checkbox" ? "control check" : "control";
    return html("label", { className: style, htmlFor: id }, [html("span", { textContent: name }), input]);
  }
  return { svg: svg, html: html, scale: scale, ofAction: ofAction, light: light, said: said, ticks: ticks, frame: frame,
           options: options, control: control, label: label, room: room };
})();
