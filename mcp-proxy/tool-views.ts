import { LRUCache } from 'lru-cache';
import { limits } from '../shared/model/limits.ts';
import { proxyLimits } from './limits.ts';

/** What one client has been shown: a session, or else the credential for the server. */
interface View {
  /** Of its last whole list; null: there was none. */
  last: ReadonlySet<string> | null;
  /** In a list before, and not in the last one. */
  readonly gone: Set<string>;
  /** Of the pages so far; null: no list has begun. */
  names: Set<string> | null;
  /** A list began before the one before it had ended, so their pages cannot be told apart. */
  isMixed: boolean;
  /** The server says that its tools have changed, and they were not listed since. */
  isStale: boolean;
  /** The open list began after that. */
  isFresh: boolean;
}

/** The lists of tools of each client, by its name, which is any text. */
export class ToolViews {
  readonly #views = new LRUCache<string, View>({
    max: proxyLimits.viewsMax,
    maxSize: proxyLimits.viewNamesMax,
    sizeCalculation: ({ last, gone, names }) => 1 + gone.size + (last?.size ?? 0) + (names?.size ?? 0),
    dispose: (view, _, cause) => {
      if (cause === 'evict') this.#forget(view);
    },
  });
  /** Some client was forgotten: one without a view may be it, and has to list the tools first. */
  #hasForgotten = false;
  /** Tools that were gone for clients that were forgotten. */
  readonly #gone = new Set<string>();

  /** A client asks for a page. */
  ask(name: string, cursor: unknown): void {
    if (cursor !== undefined && cursor !== null) return;
    const view = this.#view(name);
    view.isMixed = view.names !== null;
    view.names = new Set();
    view.isFresh = true;
  }

  /** The server says that its tools have changed. */
  change(name: string): void {
    const view = this.#view(name);
    view.isStale = true;
    view.isFresh = false;
  }

  isStale(name: string): boolean {
    return this.#views.get(name)?.isStale ?? this.#hasForgotten;
  }

  /** A client that has just begun: nothing of it can have been forgotten. */
  begin(name: string): void {
    this.#views.set(name, { ...this.#view(name), isStale: false });
  }

  /** One client by two names: what is held against the first is held against the second, which stays. */
  join(first: string, second: string): void {
    const from = this.#views.get(first);
    if (from === undefined) return;
    const view = this.#views.get(second) ?? from;
    for (const name of from.gone) view.gone.add(name);
    const isFresh = view.isFresh && !from.isStale;
    this.#views.set(second, { ...view, isStale: view.isStale || from.isStale, isFresh });
    this.#views.delete(first);
  }

  /** A page has come. Answers which of its tools are back, and whether the list is whole with it. */
  see(
    name: string,
    names: readonly string[],
    hasMore: boolean,
  ): { readonly readded: readonly string[]; readonly isWhole: boolean } {
    const view = this.#view(name);
    const readded = names.filter(
      (each) => view.gone.delete(each) || (view.last === null && this.#gone.delete(each)),
    );
    const { names: all, isMixed } = view;
    if (all === null) return { readded, isWhole: false };
    // More are not pinned, and of so many nothing is said to be gone.
    for (const each of names) if (all.size < limits.mcpPinsPerUpstreamMax) all.add(each);
    if (!hasMore) this.#end(view, all, isMixed);
    // As another object, whose size is counted anew.
    this.#views.set(name, { ...view });
    return { readded, isWhole: !hasMore };
  }

  #end(view: View, all: ReadonlySet<string>, isMixed: boolean): void {
    view.names = null;
    if (view.isFresh) view.isStale = false;
    if (isMixed || all.size === limits.mcpPinsPerUpstreamMax) return;
    for (const before of view.last ?? []) {
      if (!all.has(before) && view.gone.size < limits.mcpPinsPerUpstreamMax) view.gone.add(before);
    }
    view.last = all;
  }

  #forget({ gone }: View): void {
    this.#hasForgotten = true;
    for (const name of gone) if (this.#gone.size < limits.mcpPinsPerUpstreamMax) this.#gone.add(name);
  }

  #view(name: string): View {
    const known = this.#views.get(name);
    if (known !== undefined) return known;
    const view: View = {
      last: null,
      gone: new Set(),
      names: null,
      isMixed: false,
      isStale: this.#hasForgotten,
      isFresh: false,
    };
    this.#views.set(name, view);
    return view;
  }
}
