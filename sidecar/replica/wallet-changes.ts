import type { IdDigest } from '../../shared/model/id-digest.ts';
import { replicaLimits } from './limits.ts';

/**
 * Which wallets and passports the feed has told to be others by now, by digest, so that what is known of
 * their wallets is asked for again; and which wallets are frozen.
 *
 * What was asked for when `count` was n is good as long as none of its digests has changed after n: the
 * control plane read it after everything that the feed had told by then.
 */
export class WalletChanges {
  readonly #frozen: Set<string>;
  readonly #changedAt = new Map<string, number>();
  /** Changes up to here are forgotten: what was asked for before counts as changed. */
  #forgottenUntil = 0;
  #count = 0;

  constructor(frozen: readonly IdDigest[] = []) {
    this.#frozen = new Set(frozen);
  }

  /** Grows with every change and with every freeze. */
  get count(): number {
    return this.#count;
  }

  isFrozen(key: string): boolean {
    return this.#frozen.has(key);
  }

  get frozen(): ReadonlySet<string> {
    return this.#frozen;
  }

  hasChanged(digest: string, since: number): boolean {
    return since < this.#forgottenUntil || (this.#changedAt.get(digest) ?? 0) > since;
  }

  /** A wallet is frozen, or not any more; told without either, it is another one. */
  setWallet(key: IdDigest, isFrozen: boolean): void {
    if (isFrozen === this.#frozen.has(key)) {
      this.note(key);
      return;
    }
    this.#count++;
    if (isFrozen) this.#frozen.add(key);
    else this.#frozen.delete(key);
  }

  /** It is, or has, another wallet. */
  note(digest: IdDigest): void {
    this.#count++;
    if (this.#changedAt.size >= replicaLimits.walletChangesMax) {
      this.#changedAt.clear();
      this.#forgottenUntil = this.#count;
    }
    this.#changedAt.set(digest, this.#count);
  }
}
