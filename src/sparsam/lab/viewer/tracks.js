"use strict";
// Input, target and prediction below the memory, on the same time axis; and the training curves.

class TracksView {
  constructor(canvas) { this.canvas = canvas; }

  draw(episode, state, memory) {
    const { context, w, h } = fit(this.canvas), view = state.view, { cw, w: iw } = memory.layout(view);
    const lanes = ["input", "target", "answer"], height = (h - 14) / lanes.length;
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "right";
    context.fillStyle = color("--soft");
    lanes.forEach((name, n) => context.fillText(name, MARGIN.left - 6, 7 + (n + 0.5) * height + 4));
    context.save();
    context.beginPath();
    context.rect(MARGIN.left, 0, iw, h);
    context.clip();
    const first = Math.max(0, Math.floor(view.t0)), last = Math.min(episode.steps, Math.ceil(view.t1));
    const step = Math.max(1, Math.floor(1 / cw)); // one column a pixel is all that can be seen
    for (let t = first; t < last; t += step) {
      const x = memory.x(t, view), width = Math.max(cw, 1);
      if (t === state.step) {
        context.fillStyle = color("--mark");
        context.fillRect(x, 0, width, h);
      }
      this.#lane(context, episode, 0, t, x, width, 7, height);
      if (!episode.isAnswer[t]) continue;
      this.#lane(context, episode, 1, t, x, width, 7 + height, height);
      this.#lane(context, episode, 2, t, x, width, 7 + 2 * height, height);
    }
    if (step > 1) this.#wrongAnswers(context, episode, view, memory, h);
    context.restore();
  }

  #lane(context, episode, lane, t, x, width, top, height) {
    const source = lane === 0 ? episode.inputs : episode.kind === "bits" ? (lane === 1 ? episode.targets : episode.predictions) : null;
    const right = lane === 2 ? episode.right(t) : null;
    const ink = lane === 2 && right === false ? color("--wrong") : lane === 2 && right ? color("--right") : color("--text");
    if (source && !(lane === 0 && episode.images)) {
      const c = source.channels, cell = (height - 6) / c;
      context.fillStyle = ink;
      for (let k = 0; k < c; k++) {
        const value = source.values[t * c + k];
        if (value < 8) continue;
        context.globalAlpha = value / 255;
        context.fillRect(x, top + k * cell, Math.max(width - (width > 4 ? 1 : 0), 1), Math.max(cell - (cell > 4 ? 1 : 0), 0.5));
      }
      context.globalAlpha = 1;
      return;
    }
    if (lane === 0 && episode.images && width >= 8) {
      context.imageSmoothingEnabled = false;
      const side = Math.min(width - 1, height - 4);
      context.drawImage(picture(episode, t), x, top, side, side);
      return;
    }
    const text = lane === 0 ? episode.labels[t] : lane === 1 ? episode.target(t) : episode.prediction(t);
    context.fillStyle = ink;
    if (width < 9) {
      context.fillRect(x, top + height * 0.3, Math.max(width - 1, 1), height * 0.4);
      return;
    }
    context.save();
    context.translate(x + width / 2 + 4, top + height - 4);
    context.textAlign = "left";
    if (width < 44) context.rotate(-Math.PI / 2);
    else context.translate(-width / 2, -height / 3);
    context.fillText(text, 0, 0, width < 44 ? height : width);
    context.restore();
  }

  #wrongAnswers(context, episode, view, memory, h) {
    context.fillStyle = color("--wrong"); // a wrong answer must not vanish between two pixels
    for (const t of episode.answers)
      if (t >= view.t0 && t < view.t1 && episode.right(t) === false) context.fillRect(memory.x(t, view), h - 6, 2, 6);
  }
}

const pictures = new Map();

function picture(episode, t) {
  const key = `${episode.title}/${t}`;
  if (pictures.has(key)) return pictures.get(key);
  if (pictures.size > 2000) pictures.clear();
  const { width, height, values } = episode.images, image = new ImageData(width, height);
  for (let p = 0; p < width * height; p++) {
    const v = values[t * width * height + p];
    image.data.set([v, v, v, 255], 4 * p);
  }
  const sheet = new OffscreenCanvas(width, height);
  sheet.getContext("2d").putImageData(image, 0, 0);
  pictures.set(key, sheet);
  return sheet;
}

const LINES = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

class CurvesView {
  constructor(canvas, curves) {
    this.canvas = canvas;
    this.curves = curves;
  }

  draw() {
    const { context, w, h } = fit(this.canvas), left = MARGIN.left, right = w - 120, top = 22, bottom = h - 22;
    const points = this.curves.lines.flatMap((line) => line.points);
    const most = Math.max(1, ...points.map((p) => p[0])), high = Math.max(1e-9, this.curves.chance || 0, ...points.map((p) => p[1]));
    const x = (v) => left + (v / most) * (right - left), y = (v) => bottom - (v / high) * (bottom - top);
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = color("--soft");
    context.fillText(`${this.curves.measure} over sequences seen`, left, 14);
    context.textAlign = "center";
    for (const v of ticks(0, most, 6)) context.fillText(v.toLocaleString("en"), x(v), h - 7);
    context.textAlign = "right";
    for (const part of [0, 0.5, 1]) context.fillText(Number((part * high).toPrecision(2)).toString(), left - 6, y(part * high) + 4);
    context.textAlign = "left";
    if (this.curves.chance) {
      context.strokeStyle = color("--soft");
      context.setLineDash([5, 4]);
      context.beginPath();
      context.moveTo(left, y(this.curves.chance));
      context.lineTo(right, y(this.curves.chance));
      context.stroke();
      context.setLineDash([]);
      context.fillText("chance", right + 6, y(this.curves.chance) + 4);
    }
    this.curves.lines.forEach((line, n) => {
      context.strokeStyle = context.fillStyle = LINES[n % LINES.length];
      context.lineWidth = 1.8;
      context.beginPath();
      line.points.forEach(([px, py], k) => (k ? context.lineTo(x(px), y(py)) : context.moveTo(x(px), y(py))));
      context.stroke();
      if (line.points.length === 1) context.fillRect(x(line.points[0][0]) - 2, y(line.points[0][1]) - 2, 4, 4);
      if (line.points.length) context.fillText(line.name, right + 6, Math.min(bottom, y(line.points.at(-1)[1]) + 4 + 12 * n));
    });
  }
}
