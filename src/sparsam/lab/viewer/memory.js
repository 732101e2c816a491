"use strict";
// The picture of the memory: time to the right, touched rows downward. What is visible decides how it is drawn: marks
// where there is room for them, else one pass over the visible accesses that keeps the strongest in each pixel.

const MARGIN = { left: 64, right: 26, top: 8, bottom: 22 };

function color(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

function rgb(text) {
  const n = parseInt(text.slice(1), 16);
  return [n >> 16, (n >> 8) & 255, n & 255];
}

function fit(canvas) {
  const scale = window.devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
  if (canvas.width !== Math.round(w * scale) || canvas.height !== Math.round(h * scale)) {
    canvas.width = Math.round(w * scale);
    canvas.height = Math.round(h * scale);
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, w, h);
  return { context, w, h, scale };
}

function ticks(low, high, most) {
  const span = Math.max(high - low, 1), raw = span / most, power = 10 ** Math.floor(Math.log10(Math.max(raw, 1)));
  const step = Math.max(1, [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw));
  const found = [];
  for (let v = Math.ceil(low / step) * step; v < high; v += step) found.push(v);
  return found;
}

class MemoryView {
  constructor(canvas) { this.canvas = canvas; }

  layout(view) {
    const w = this.canvas.clientWidth - MARGIN.left - MARGIN.right, h = this.canvas.clientHeight - MARGIN.top - MARGIN.bottom;
    return { w, h, cw: w / (view.t1 - view.t0), ch: h / (view.r1 - view.r0) };
  }

  x(t, view) { return MARGIN.left + (t - view.t0) * this.layout(view).cw; }

  // Step and place on the row axis under a point.
  at(px, py, view) {
    const { w, h, cw, ch } = this.layout(view);
    const x = px - MARGIN.left, y = py - MARGIN.top;
    return { inside: x >= 0 && y >= 0 && x < w && y < h, t: view.t0 + x / cw, r: view.r0 + y / ch };
  }

  shown(episode, state, i) {
    const kind = episode.tag[i] & 1;
    return (kind ? state.writes : state.reads) && state.heads[episode.tag[i] >> 1] && episode.weight[i] >= state.faintest;
  }

  draw(episode, state) {
    const { context, w, h } = fit(this.canvas), view = state.view, { cw, ch, w: iw, h: ih } = this.layout(view);
    this.#axes(context, episode, state, w, h);
    context.save();
    context.beginPath();
    context.rect(MARGIN.left, MARGIN.top, iw, ih);
    context.clip();
    this.#shadeAnswers(context, episode, view, cw, ih);
    const first = episode.start[Math.max(0, Math.floor(view.t0))];
    const last = episode.start[Math.min(episode.steps, Math.ceil(view.t1))];
    if (cw >= 3 && ch >= 2.5 && last - first < 60000) this.#marks(context, episode, state, first, last, cw, ch);
    else this.#pixels(context, episode, state, first, last, cw, ch, iw, ih);
    this.#selection(context, episode, state, cw, ch, ih);
    context.restore();
  }

  #axes(context, episode, state, w, h) {
    const view = state.view, { ch } = this.layout(view);
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = color("--soft");
    context.strokeStyle = color("--line");
    context.lineWidth = 1;
    context.strokeRect(MARGIN.left - 0.5, MARGIN.top - 0.5, w - MARGIN.left - MARGIN.right + 1, h - MARGIN.top - MARGIN.bottom + 1);
    context.textAlign = "center";
    for (const t of ticks(view.t0, view.t1, Math.max(4, w / 90))) context.fillText(t.toLocaleString("en"), this.x(t + 0.5, view), h - 7);
    context.textAlign = "right";
    const byPlace = state.rowAt;
    for (const r of ticks(view.r0, Math.min(view.r1, episode.rows.length), Math.max(3, h / 40)))
      context.fillText(episode.rows[byPlace[r]].toLocaleString("en"), MARGIN.left - 6, MARGIN.top + (r + 0.5 - view.r0) * ch + 4);
    context.save();
    context.translate(11, h / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = "center";
    context.fillText(`row (${episode.rows.length.toLocaleString("en")} touched of ${episode.memory.toLocaleString("en")})`, 0, 0);
    context.restore();
  }

  #shadeAnswers(context, episode, view, cw, ih) {
    context.fillStyle = color("--mark");
    context.globalAlpha = 0.6;
    const width = Math.max(cw, 1);
    for (const t of episode.answers) if (t >= view.t0 - 1 && t <= view.t1) context.fillRect(this.x(t, view), MARGIN.top, width, ih);
    context.globalAlpha = 1;
  }

  #marks(context, episode, state, first, last, cw, ch) {
    const view = state.view, place = state.place, colors = [color("--read"), color("--write")];
    for (const kind of [1, 0]) { // writes behind, reads in front
      context.fillStyle = colors[kind];
      for (let i = first; i < last; i++) {
        if ((episode.tag[i] & 1) !== kind || !this.shown(episode, state, i)) continue;
        const r = place[episode.row[i]];
        if (r < view.r0 - 1 || r > view.r1) continue;
        const x = MARGIN.left + (episode.time[i] - view.t0) * cw, y = MARGIN.top + (r - view.r0) * ch;
        context.globalAlpha = 0.15 + 0.85 * Math.sqrt(episode.weight[i] / 65535);
        if (kind) context.fillRect(x, y, Math.max(cw - 0.5, 1), Math.max(ch - 0.5, 1));
        else {
          const radius = Math.max(1.2, Math.min(cw, ch, 18) * 0.34);
          context.beginPath();
          context.arc(x + cw / 2, y + ch / 2, radius, 0, 7);
          context.fill();
        }
      }
    }
    context.globalAlpha = 1;
  }

  #pixels(context, episode, state, first, last, cw, ch, iw, ih) {
    const w = Math.max(1, Math.floor(iw)), h = Math.max(1, Math.floor(ih)), view = state.view, place = state.place;
    if (!this.layers || this.layers[0].length !== w * h) this.layers = [new Uint16Array(w * h), new Uint16Array(w * h)];
    const [reads, writes] = this.layers;
    reads.fill(0);
    writes.fill(0);
    // Few steps on many rows: marks stay as wide as their step, and high enough to be seen.
    const wide = Math.max(1, Math.min(24, Math.floor(cw) - 1)), narrow = Math.max(1, Math.ceil(wide / 3));
    const mh = Math.max(cw >= 3 ? 2 : 1, Math.min(3, Math.floor(ch)));
    for (let i = first; i < last; i++) {
      if (!this.shown(episode, state, i)) continue;
      const x = ((episode.time[i] - view.t0) * cw) | 0, y = ((place[episode.row[i]] - view.r0) * ch) | 0;
      if (x < 0 || y < 0 || x >= w || y >= h) continue;
      const write = episode.tag[i] & 1, layer = write ? writes : reads, weight = episode.weight[i];
      const inset = write ? 0 : (wide - narrow) >> 1, end = inset + (write ? wide : narrow);
      for (let dy = 0; dy < mh && y + dy < h; dy++)
        for (let dx = inset; dx < end && x + dx < w; dx++) {
          const p = (y + dy) * w + x + dx;
          if (weight > layer[p]) layer[p] = weight;
        }
    }
    const image = new ImageData(w, h), out = new Uint32Array(image.data.buffer);
    const [rr, rg, rb] = rgb(color("--read")), [wr, wg, wb] = rgb(color("--write"));
    const readColor = rr | (rg << 8) | (rb << 16), writeColor = wr | (wg << 8) | (wb << 16);
    for (let p = 0; p < w * h; p++) {
      const r = reads[p], m = writes[p];
      if (r === 0 && m === 0) continue;
      const read = r > 0 && (wide > 3 || r >= m); // reads lie in front where there is room for both
      const alpha = 60 + 195 * Math.sqrt((read ? r : m) / 65535);
      out[p] = (read ? readColor : writeColor) | ((alpha | 0) << 24);
    }
    const sheet = new OffscreenCanvas(w, h);
    sheet.getContext("2d").putImageData(image, 0, 0);
    context.drawImage(sheet, MARGIN.left, MARGIN.top);
  }

  // The chosen step, and lines from what it reads back to where that was written.
  #selection(context, episode, state, cw, ch, ih) {
    const view = state.view, t = state.step;
    if (t === null) return;
    context.strokeStyle = color("--select");
    context.lineWidth = 1;
    const x = this.x(t, view);
    context.strokeRect(x, MARGIN.top, Math.max(cw, 1), ih);
    for (const i of episode.accesses(t, 0)) {
      if (!this.shown(episode, state, i)) continue;
      const from = episode.writer(episode.row[i], t);
      const y = MARGIN.top + (state.place[episode.row[i]] + 0.5 - view.r0) * ch;
      context.globalAlpha = 0.25 + 0.75 * episode.share(i);
      context.lineWidth = 1 + 2 * episode.share(i);
      context.beginPath();
      const start = from < 0 ? x : this.x(episode.time[from] + 0.5, view);
      context.moveTo(start, y);
      context.lineTo(x + cw / 2, y);
      context.stroke();
      if (from >= 0) context.strokeRect(this.x(episode.time[from], view), y - ch / 2, Math.max(cw, 3), Math.max(ch, 3));
    }
    context.globalAlpha = 1;
  }

  // The strongest visible access within a few pixels of a point, or -1.
  hit(episode, state, px, py) {
    const view = state.view, { cw, ch } = this.layout(view), here = this.at(px, py, view);
    if (!here.inside) return -1;
    const reach = Math.max(0, Math.ceil(4 / cw)), rowReach = Math.max(0.5, 5 / ch);
    const from = Math.max(0, Math.floor(here.t) - reach), to = Math.min(episode.steps - 1, Math.floor(here.t) + reach);
    let best = -1, nearest = Infinity;
    for (let i = episode.start[from]; i < episode.start[to + 1]; i++) {
      if (!this.shown(episode, state, i)) continue;
      const dr = Math.abs(state.place[episode.row[i]] + 0.5 - here.r), dt = Math.abs(episode.time[i] + 0.5 - here.t);
      if (dr > rowReach) continue;
      const distance = (dt * cw) ** 2 + (dr * ch) ** 2 - episode.share(i);
      if (distance < nearest) [nearest, best] = [distance, i];
    }
    return best;
  }
}
