"use strict";
// An episode unpacked: columns of accesses in order of time, and who wrote a row before it was read.

function unpack(text, Kind) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Kind(bytes.buffer);
}

class Episode {
  constructor(data) {
    Object.assign(this, { title: data.title, steps: data.steps, heads: data.heads, memory: data.memory, labels: data.labels,
      groups: data.groups, names: data.names, answers: data.answers, kind: data.kind });
    this.rows = unpack(data.rows, Uint32Array);
    this.time = unpack(data.time, Uint32Array);
    this.row = unpack(data.row, Uint32Array);
    this.weight = data.time.length ? unpack(data.weight, Uint16Array) : new Uint16Array(0);
    this.tag = data.time.length ? unpack(data.tag, Uint8Array) : new Uint8Array(0);
    this.groupOf = unpack(data.groupOf, Uint32Array);
    this.inputs = data.inputs && { channels: data.inputs.channels, values: unpack(data.inputs.values, Uint8Array) };
    this.images = data.images && { ...data.images, values: unpack(data.images.values, Uint8Array) };
    const Numbers = this.kind === "bits" ? Uint8Array : Int32Array;
    this.targets = { channels: data.targets.channels, values: unpack(data.targets.values, Numbers) };
    this.predictions = { channels: data.predictions.channels, values: unpack(data.predictions.values, Numbers) };
    this.sure = data.predictions.sure && unpack(data.predictions.sure, Uint8Array);
    this.isAnswer = new Uint8Array(this.steps);
    for (const t of this.answers) this.isAnswer[t] = 1;
    this.#index();
  }

  #index() {
    const count = this.time.length;
    this.start = new Uint32Array(this.steps + 1); // accesses of step t: start[t] .. start[t + 1]
    for (let i = 0; i < count; i++) this.start[this.time[i] + 1]++;
    for (let t = 0; t < this.steps; t++) this.start[t + 1] += this.start[t];
    const order = new Uint32Array(this.rows.length).fill(this.rows.length);
    let next = 0;
    for (let i = 0; i < count; i++) if (order[this.row[i]] === this.rows.length) order[this.row[i]] = next++;
    this.byFirstUse = order;
    this.byNumber = Uint32Array.from(this.rows, (_, i) => i);
    // Writes of each row, as a list of accesses in order of time.
    const sizes = new Uint32Array(this.rows.length + 1);
    for (let i = 0; i < count; i++) if (this.tag[i] & 1) sizes[this.row[i] + 1]++;
    for (let r = 0; r < this.rows.length; r++) sizes[r + 1] += sizes[r];
    this.writesFrom = sizes.slice();
    this.writes = new Uint32Array(sizes[this.rows.length]);
    const at = sizes.slice();
    for (let i = 0; i < count; i++) if (this.tag[i] & 1) this.writes[at[this.row[i]]++] = i;
  }

  // The access that wrote this row most strongly up to step t (the latest of equals), or -1.
  writer(row, t) {
    let best = -1;
    for (let j = this.writesFrom[row]; j < this.writesFrom[row + 1]; j++) {
      const i = this.writes[j];
      if (this.time[i] > t) break;
      if (best < 0 || this.weight[i] >= this.weight[best]) best = i;
    }
    return best;
  }

  accesses(t, kind) {
    const found = [];
    for (let i = this.start[t]; i < this.start[t + 1]; i++) if ((this.tag[i] & 1) === kind) found.push(i);
    return found.sort((a, b) => this.weight[b] - this.weight[a]);
  }

  head(i) { return this.tag[i] >> 1; }
  share(i) { return this.weight[i] / 65535; }
  groupText(t) { return this.groups[this.groupOf[t]] || ""; }
  name(number) { return number < 0 ? "" : this.names ? this.names[number] : String(number); }

  bits(source, t) {
    const c = source.channels;
    return Array.from(source.values.subarray(t * c, t * c + c), (v) => (v > 127 ? "1" : "0")).join("");
  }

  // Whether the answer at step t is right; null where the right one is not known.
  right(t) {
    if (this.kind === "bits") return this.bits(this.targets, t) === this.bits(this.predictions, t);
    return this.targets.values[t] < 0 ? null : this.targets.values[t] === this.predictions.values[t];
  }

  target(t) { return this.kind === "bits" ? this.bits(this.targets, t) : this.name(this.targets.values[t]); }
  prediction(t) { return this.kind === "bits" ? this.bits(this.predictions, t) : this.name(this.predictions.values[t]); }
}
