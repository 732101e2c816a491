"use strict";
// Puts it together: what is chosen and visible, and how pointer and keys change it.

(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const memory = new MemoryView($("memory")), tracks = new TracksView($("tracks"));
  const curves = data.curves && new CurvesView($("curves"), data.curves);
  const cache = new Map();
  const state = { view: null, step: null, hover: null, reads: true, writes: true, heads: [], faintest: 0, place: null, rowAt: null, playing: null };
  let episode = null, waiting = false;
  const panel = new Panel($("details"), $("story"), (step) => select(step, true));

  $("title").textContent = data.title;
  $("about").textContent = data.about;
  $("curves-frame").hidden = !curves;

  function redraw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      draw();
    });
  }

  function draw() {
    memory.draw(episode, state);
    tracks.draw(episode, state, memory);
    if (curves) curves.draw();
    panel.show(episode, state);
  }

  function open(number) {
    if (!cache.has(number)) cache.set(number, new Episode(data.episodes[number]));
    episode = cache.get(number);
    const first = matchMedia("(max-width: 900px)").matches ? episode.answers[0] ?? null : null; // a phone begins with an answer
    Object.assign(state, { step: first, hover: null, heads: Array(episode.heads).fill(true) });
    $("heads").replaceChildren(...state.heads.map((_, head) => {
      const button = element("button", `head ${head + 1}`, "chip");
      button.setAttribute("aria-pressed", "true");
      button.addEventListener("click", () => toggleHead(head));
      return button;
    }));
    arrange();
    all();
  }

  function arrange() {
    state.place = $("order").value === "first" ? episode.byFirstUse : episode.byNumber;
    state.rowAt = new Uint32Array(episode.rows.length);
    state.place.forEach((place, row) => (state.rowAt[place] = row));
    redraw();
  }

  function all() {
    state.view = { t0: 0, t1: Math.max(episode.steps, 1), r0: 0, r1: Math.max(episode.rows.length, 1) };
    redraw();
  }

  function limit(low, high, size, least) {
    let span = Math.min(Math.max(high - low, least), size);
    low = Math.min(Math.max(low, 0), size - span);
    return [low, low + span];
  }

  function look(t0, t1, r0, r1) {
    [t0, t1] = limit(t0, t1, Math.max(episode.steps, 1), Math.min(8, episode.steps));
    [r0, r1] = limit(r0, r1, Math.max(episode.rows.length, 1), Math.min(8, Math.max(episode.rows.length, 1)));
    state.view = { t0, t1, r0, r1 };
    redraw();
  }

  function zoom(factor, t, r, timeToo = true, rowsToo = true) {
    const v = state.view, ft = timeToo ? factor : 1, fr = rowsToo ? factor : 1;
    const hidden = r < v.r0 || r > v.r1, middle = hidden ? (v.r0 + v.r1) / 2 : r, shift = r - middle;
    look(t - (t - v.t0) * ft, t + (v.t1 - t) * ft, shift + middle - (middle - v.r0) * fr, shift + middle + (v.r1 - middle) * fr);
  }

  // The place on the row axis that matters at a step: its strongest read, or else its strongest write.
  function rowOf(t) {
    const found = [...episode.accesses(t, 0), ...episode.accesses(t, 1)].filter((i) => memory.shown(episode, state, i));
    return found.length ? state.place[episode.row[found[0]]] : (state.view.r0 + state.view.r1) / 2;
  }

  function zoomMiddle(factor) {
    const v = state.view, t = state.step ?? Math.floor((v.t0 + v.t1) / 2);
    const span = factor * (v.t1 - v.t0), from = Math.min(Math.max((t + 0.5 - v.t0) / (v.t1 - v.t0), 0.1), 0.9);
    zoom(factor, t, rowOf(t), false);
    look(t + 0.5 - from * span, t + 0.5 + (1 - from) * span, state.view.r0, state.view.r1);
  }

  function select(step, show = false) {
    state.step = step === null ? null : Math.min(Math.max(step, 0), episode.steps - 1);
    const v = state.view, t = state.step;
    if (show && t !== null && (t < v.t0 || t >= v.t1)) {
      const half = (v.t1 - v.t0) / 2;
      look(t - half, t + half, v.r0, v.r1);
    }
    redraw();
  }

  function nextAnswer(direction) {
    const from = state.step ?? (direction > 0 ? -1 : episode.steps);
    const list = direction > 0 ? episode.answers : [...episode.answers].reverse();
    const found = list.find((t) => (direction > 0 ? t > from : t < from));
    if (found !== undefined) select(found, true);
  }

  function toggleHead(head) {
    if (head >= state.heads.length) return;
    state.heads[head] = !state.heads[head];
    $("heads").children[head].setAttribute("aria-pressed", state.heads[head]);
    redraw();
  }

  function toggleKind(kind) {
    state[kind] = !state[kind];
    $(kind).setAttribute("aria-pressed", state[kind]);
    redraw();
  }

  function play() {
    if (state.playing !== null) {
      cancelAnimationFrame(state.playing);
      state.playing = null;
      $("play").textContent = "\u25b6 Play";
      return;
    }
    $("play").textContent = "\u25a0 Stop";
    const speed = Math.max(4, episode.steps / 40); // steps a second: every episode lasts at most 40
    let at = state.step === null || state.step >= episode.steps - 1 ? 0 : state.step, before = performance.now();
    const tick = (now) => {
      at += ((now - before) / 1000) * speed;
      before = now;
      select(Math.floor(at), true);
      if (at >= episode.steps - 1) {
        state.playing = 0;
        play();
        return;
      }
      state.playing = requestAnimationFrame(tick);
    };
    state.playing = requestAnimationFrame(tick);
  }

  function theme(name) {
    document.documentElement.dataset.theme = name;
    $("theme").textContent = name === "dark" ? "Light" : "Dark";
    if (episode) redraw();
  }

  const canvas = $("memory");
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    drag = { x: event.offsetX, y: event.offsetY, view: { ...state.view }, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (drag) {
      const { cw, ch } = memory.layout(drag.view), dx = event.offsetX - drag.x, dy = event.offsetY - drag.y;
      if (Math.abs(dx) + Math.abs(dy) > 3) drag.moved = true;
      if (drag.moved) {
        const v = drag.view;
        look(v.t0 - dx / cw, v.t1 - dx / cw, v.r0 - dy / ch, v.r1 - dy / ch);
      }
      return;
    }
    const i = memory.hit(episode, state, event.offsetX, event.offsetY), tip = $("tip");
    const here = memory.at(event.offsetX, event.offsetY, state.view), before = state.hover;
    state.hover = here.inside ? Math.min(episode.steps - 1, Math.floor(here.t)) : null;
    if (before !== state.hover && state.step === null) panel.show(episode, state);
    tip.hidden = i < 0;
    if (i >= 0) {
      tip.replaceChildren(...panel.tip(episode, i));
      tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
      tip.style.top = `${Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)}px`;
    }
  });
  canvas.addEventListener("pointerleave", () => {
    $("tip").hidden = true;
    state.hover = null;
    panel.show(episode, state);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && !drag.moved) {
      const i = memory.hit(episode, state, event.offsetX, event.offsetY), here = memory.at(event.offsetX, event.offsetY, state.view);
      if (here.inside) select(i >= 0 ? episode.time[i] : Math.floor(here.t));
    }
    drag = null;
  });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const here = memory.at(event.offsetX, event.offsetY, state.view), amount = event.deltaY || event.deltaX;
    zoom(Math.exp(amount * 0.0015), here.t, here.r, !event.shiftKey, event.shiftKey || event.ctrlKey);
  }, { passive: false });
  canvas.addEventListener("dblclick", all);
  $("tracks").addEventListener("click", (event) => {
    const t = Math.floor(memory.at(event.offsetX, MARGIN.top + 1, state.view).t);
    if (t >= 0 && t < episode.steps) select(t);
  });

  $("play").addEventListener("click", play);
  $("reads").addEventListener("click", () => toggleKind("reads"));
  $("writes").addEventListener("click", () => toggleKind("writes"));
  $("order").addEventListener("change", arrange);
  $("faint").addEventListener("input", () => {
    state.faintest = (Number($("faint").value) / 100) * 65535;
    $("faint-value").textContent = (Number($("faint").value) / 100).toString();
    redraw();
  });
  $("zoom-in").addEventListener("click", () => zoomMiddle(0.6));
  $("zoom-out").addEventListener("click", () => zoomMiddle(1 / 0.6));
  $("zoom-all").addEventListener("click", all);
  $("answer-next").addEventListener("click", () => nextAnswer(1));
  $("answer-before").addEventListener("click", () => nextAnswer(-1));
  $("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  $("help-button").addEventListener("click", () => $("help").showModal());
  $("episode").replaceChildren(...data.episodes.map((entry, n) => {
    const option = element("option", entry.title);
    option.value = n;
    return option;
  }));
  $("episode").addEventListener("change", () => open(Number($("episode").value)));
  $("episode-label").hidden = data.episodes.length < 2;
  addEventListener("resize", redraw);

  const keys = {
    ArrowLeft: (e) => select((state.step ?? episode.steps) - (e.shiftKey ? 10 : 1), true),
    ArrowRight: (e) => select((state.step ?? -1) + (e.shiftKey ? 10 : 1), true),
    ArrowUp: () => { const v = state.view, d = (v.r1 - v.r0) / 10; look(v.t0, v.t1, v.r0 - d, v.r1 - d); },
    ArrowDown: () => { const v = state.view, d = (v.r1 - v.r0) / 10; look(v.t0, v.t1, v.r0 + d, v.r1 + d); },
    "+": () => zoomMiddle(0.6), "=": () => zoomMiddle(0.6), "-": () => zoomMiddle(1 / 0.6), 0: all,
    n: () => nextAnswer(1), p: () => nextAnswer(-1), r: () => toggleKind("reads"), w: () => toggleKind("writes"),
    t: () => $("theme").click(), "?": () => $("help").showModal(), " ": play, Escape: () => select(null),
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || $("help").open) return;
    if (["SELECT", "INPUT"].includes(event.target.tagName) && event.key !== "Escape") return;
    if (event.target.tagName === "BUTTON" && event.key === " ") return;
    if (/^[1-9]$/.test(event.key)) toggleHead(Number(event.key) - 1);
    else if (keys[event.key]) {
      event.preventDefault();
      keys[event.key](event);
    }
  });

  theme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  open(0);
  window.sparsam = { state, draw, look, select, memory, panel, get episode() { return episode; } }; // for tests and tinkerers

  if (data.live) {
    let version = null;
    setInterval(async () => {
      try {
        const now = await (await fetch("version")).text();
        if (version !== null && now !== version) location.reload();
        version = now;
      } catch { /* the server has gone; the page stays as it is */ }
    }, 2000);
  }
})();
