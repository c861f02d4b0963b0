import { must } from '../../shared/errors/assert.ts';
import {
  type Wallet,
  type WalletLimitName,
  walletDepthMax,
  walletLimitNames,
} from '../../shared/model/wallet.ts';

/** A wallet as far as others depend on it. `parent`: a key of the forest. */
export interface ForestWallet extends Pick<Wallet, 'limits' | 'share'> {
  readonly parent: string | null;
}

/** The trees of an account under the rules of the service (contract §6): a plan is tried on them first. */
export class WalletForest {
  readonly #wallets = new Map<string, ForestWallet>();
  readonly #children = new Map<string, Set<string>>();
  /** Sums of what children reserve, kept up to date: one of thousands is put without a look at the others. */
  readonly #reserved = new Map<string, Map<WalletLimitName, bigint>>();

  get size(): number {
    return this.#wallets.size;
  }

  get(key: string): ForestWallet | null {
    return this.#wallets.get(key) ?? null;
  }

  childrenOf(key: string): readonly string[] {
    return [...(this.#children.get(key) ?? [])];
  }

  put(key: string, wallet: ForestWallet): void {
    this.delete(key);
    this.#wallets.set(key, wallet);
    if (wallet.parent === null) return;
    this.#reserve(wallet, 1n);
    const siblings = this.#children.get(wallet.parent) ?? new Set();
    this.#children.set(wallet.parent, siblings.add(key));
  }

  /** Its children stay, below nothing. */
  delete(key: string): void {
    const wallet = this.get(key);
    if (wallet === null) return;
    this.#reserve(wallet, -1n);
    if (wallet.parent !== null) this.#children.get(wallet.parent)?.delete(key);
    this.#wallets.delete(key);
  }

  /** Sums of many limits may pass what a number holds exactly, where the parent has no such limit. */
  #reserve({ parent, share, limits }: ForestWallet, times: 1n | -1n): void {
    if (parent === null || share !== 'reserved') return;
    const sums = this.#reserved.get(parent) ?? new Map<WalletLimitName, bigint>();
    for (const name of walletLimitNames)
      sums.set(name, (sums.get(name) ?? 0n) + times * BigInt(limits[name] ?? 0));
    this.#reserved.set(parent, sums);
  }

  /** From itself up to its root; null: it is below itself. */
  pathOf(key: string): readonly string[] | null {
    const path = [key];
    for (let above = this.get(key)?.parent ?? null; above !== null; above = this.get(above)?.parent ?? null) {
      if (above === key || path.length > this.#wallets.size) return null;
      path.push(above);
    }
    return path;
  }

  /** Levels from the root down to the deepest below it. Only of one that is not below itself. */
  depthOf(key: string): number {
    const below = (of: string): number => 1 + Math.max(0, ...this.childrenOf(of).map(below));
    return must(this.pathOf(key), 'it is not below itself').length - 1 + below(key);
  }

  /** The limit of which children have set aside more than there is; null: of none. */
  overbookedOf(key: string | null): string | null {
    const wallet = key === null ? null : this.get(key);
    if (key === null || wallet === null) return null;
    const sums = this.#reserved.get(key);
    const isPassed = (name: WalletLimitName): boolean => {
      const limit = wallet.limits[name];
      return limit !== undefined && (sums?.get(name) ?? 0n) > BigInt(limit);
    };
    return walletLimitNames.find(isPassed) ?? null;
  }

  /** Puts it where the service would take that now; else leaves all as it is. */
  tryPut(key: string, wallet: ForestWallet): boolean {
    const before = this.get(key);
    if (wallet.parent !== null && this.get(wallet.parent) === null) return false;
    this.put(key, wallet);
    const isMoved = before === null || before.parent !== wallet.parent;
    const isTaken =
      this.pathOf(key) !== null &&
      (!isMoved || this.depthOf(key) <= walletDepthMax) &&
      this.overbookedOf(key) === null &&
      this.overbookedOf(wallet.parent) === null;
    if (isTaken) return true;
    if (before === null) this.delete(key);
    else this.put(key, before);
    return false;
  }
}
