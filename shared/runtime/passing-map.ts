/** A map with fewer members than this is replaced after this many additions. */
const addedMin = 64;

/**
 * A map with few members at a time that come and go quickly.
 *
 * A Map would do, but for how V8 collects garbage. It replaces the table of a Map whenever that is full of
 * members that have gone, and each table that was replaced refers to the next one. Once one of them has moved
 * to the old generation, all later ones follow it there with all that is in them, garbage as they are, until
 * old objects are collected: under eight streams the old generation of a sidecar grew by 0.1 MiB with each
 * collection of the young one, in some processes and not in others. So this makes its Map anew now and then,
 * and no earlier table refers to that. What it costs is a copy of a member for each one added, at most.
 */
export class PassingMap<Key, Value> {
  #map = new Map<Key, Value>();
  #added = 0;

  get size(): number {
    return this.#map.size;
  }

  has(key: Key): boolean {
    return this.#map.has(key);
  }

  get(key: Key): Value | undefined {
    return this.#map.get(key);
  }

  set(key: Key, value: Value): void {
    this.#added += 1;
    if (this.#added > Math.max(addedMin, this.#map.size)) {
      this.#added = 0;
      this.#map = new Map(this.#map);
    }
    this.#map.set(key, value);
  }

  delete(key: Key): boolean {
    return this.#map.delete(key);
  }
}
