"use strict";
// The panel at the side: what a step took in, read, wrote and answered, in words.

function element(tag, content, kind) {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  for (const part of [content].flat()) if (part !== undefined && part !== null) made.append(part);
  return made;
}

function bar(share, kind) {
  const made = element("span", "", `bar ${kind}`);
  made.style.width = `${Math.round(60 * share)}px`;
  return made;
}

// The image of a step.
function shown(episode, t) {
  const made = element("canvas", "", "shown");
  Object.assign(made, { width: episode.images.width, height: episode.images.height });
  made.getContext("2d").drawImage(picture(episode, t), 0, 0);
  return made;
}

class Panel {
  constructor(details, story, go) { Object.assign(this, { details, story, go, storyOf: null }); }

  show(episode, state) {
    const t = state.step ?? state.hover;
    this.#story(episode, t);
    if (t === null) {
      this.details.replaceChildren(
        element("h2", "The whole sequence"),
        element("p", `Steps: ${episode.steps.toLocaleString("en")}. Rows touched: ${episode.rows.length.toLocaleString("en")}. ` +
          `Answers: ${episode.answers.length.toLocaleString("en")}, wrong: ${this.#mistakes(episode)}.`),
        element("p", "Point at a mark to see what it is; click a step, or press n for the next answer.", "soft"));
      return;
    }
    const parts = [element("h2", `Step ${t.toLocaleString("en")}: ${episode.labels[t]}`)];
    if (episode.groupText(t) && episode.groupText(t) !== episode.labels[t]) parts.push(element("div", episode.groupText(t), "soft mono"));
    if (episode.images) parts.push(shown(episode, t));
    if (episode.isAnswer[t]) parts.push(...this.#answer(episode, t));
    parts.push(...this.#list(episode, t, 0, "Reads"), ...this.#list(episode, t, 1, "Writes"));
    this.details.replaceChildren(...parts);
  }

  #mistakes(episode) { return episode.answers.filter((t) => episode.right(t) === false).length.toLocaleString("en"); }

  #answer(episode, t) {
    const right = episode.right(t), sure = episode.sure ? ` (${Math.round(episode.sure[t] / 2.55)}%)` : "";
    const kind = right === null ? "" : right ? "right" : "wrong";
    const rows = [element("tr", [element("td", "answer"), element("td", episode.prediction(t) + sure, `mono ${kind}`)])];
    if (right !== null) rows.push(element("tr", [element("td", "target"), element("td", episode.target(t), "mono")]));
    const parts = [element("h3", right === null ? "Answer" : right ? "Answer, right" : "Answer, wrong"), element("table", rows)];
    const shares = this.shares(episode, t);
    if (shares.length) {
      parts.push(element("h3", "Read for this answer"));
      parts.push(element("table", shares.slice(0, 8).map(({ group, share, step }) => element("tr", [
        element("td", `${Math.round(100 * share)}%`),
        element("td", bar(share, "read")),
        element("td", group < 0 ? element("span", "blank memory", "soft")
          : group === episode.groupOf[t] ? element("span", "what is asked here", "soft") : this.#jump(episode.groups[group], step)),
      ]))));
    }
    return parts;
  }

  // What was read at step t, by the group of steps that wrote it.
  shares(episode, t) {
    const found = new Map();
    let total = 0;
    for (const i of episode.accesses(t, 0)) {
      const from = episode.writer(episode.row[i], t), group = from < 0 ? -1 : episode.groupOf[episode.time[from]];
      const entry = found.get(group) || { group, share: 0, step: from < 0 ? null : episode.time[from] };
      entry.share += episode.share(i);
      total += episode.share(i);
      found.set(group, entry);
    }
    const list = [...found.values()].sort((a, b) => b.share - a.share);
    list.forEach((entry) => (entry.share /= total));
    return list;
  }

  #list(episode, t, kind, title) {
    const found = episode.accesses(t, kind);
    if (!found.length) return [];
    const rows = found.slice(0, 24).map((i) => {
      const from = kind ? -1 : episode.writer(episode.row[i], t);
      return element("tr", [
        element("td", `head ${episode.head(i) + 1}`),
        element("td", `row ${episode.rows[episode.row[i]].toLocaleString("en")}`),
        element("td", episode.share(i).toFixed(2)),
        element("td", bar(episode.share(i), kind ? "write" : "read")),
        element("td", kind ? null : from < 0 ? element("span", "blank", "soft") : this.#jump(`step ${episode.time[from]}: ${episode.labels[episode.time[from]]}`, episode.time[from])),
      ]);
    });
    return [element("h3", title), element("table", rows)];
  }

  #jump(text, step) {
    const made = element("button", text, "jump");
    made.addEventListener("click", () => this.go(step));
    return made;
  }

  #story(episode, t) {
    if (this.storyOf !== episode) {
      this.storyOf = episode;
      const most = 400, first = new Map();
      episode.groupOf.forEach((group, step) => { if (!first.has(group)) first.set(group, step); });
      this.items = episode.groups.slice(0, most).map((text, group) => {
        const item = element("li", text, "mono");
        item.addEventListener("click", () => this.go(first.get(group)));
        return item;
      });
      const rest = episode.groups.length - most;
      this.story.replaceChildren(element("h2", "What went in"), element("ol", this.items),
        ...(rest > 0 ? [element("p", `and ${rest.toLocaleString("en")} more`, "soft")] : []));
    }
    this.items.forEach((item, group) => {
      const now = t !== null && episode.groupOf[t] === group;
      if (now && !item.classList.contains("now")) {
        const box = this.story.getBoundingClientRect(), at = item.getBoundingClientRect();
        if (at.top < box.top || at.bottom > box.bottom) this.story.scrollTop += at.top - box.top - box.height / 2;
      }
      item.classList.toggle("now", now);
    });
  }

  tip(episode, i) {
    const t = episode.time[i], kind = episode.tag[i] & 1, from = kind ? -1 : episode.writer(episode.row[i], t);
    const parts = [
      element("div", [`head ${episode.head(i) + 1} ${kind ? "writes" : "reads"} row ${episode.rows[episode.row[i]].toLocaleString("en")}: ${episode.share(i).toFixed(2)}`], kind ? "write" : "read"),
      element("div", `step ${t.toLocaleString("en")}: ${episode.labels[t]}`),
    ];
    if (kind) parts.push(element("div", episode.groupText(t), "soft"));
    else if (from < 0) parts.push(element("div", "a blank word", "soft"));
    else parts.push(element("div", `written at step ${episode.time[from].toLocaleString("en")}: ${episode.groupText(episode.time[from])}`, "soft"));
    if (episode.images && (kind || from >= 0)) parts.push(shown(episode, kind ? t : episode.time[from]));
    return parts;
  }
}
