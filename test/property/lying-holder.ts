import type { Mutant } from './run-ledger.ts';
import type { WorldEvent } from './run-world.ts';

/** Where the units of the one limit are. */
export interface Units {
  free: number;
  /** Taken by PERMITs on record. */
  posted: number;
  held: number;
  /** By holder: units leased and not taken by a PERMIT on record. */
  readonly leased: number[];
}

interface Permit {
  readonly id: string;
  readonly units: number;
  /** Of them those that its leases gave up. */
  readonly taken: number;
  /** The epoch in which it was settled; leases end with their epoch. */
  readonly epoch: number;
  isVoid: boolean;
  /** And its units came back. */
  isFreed: boolean;
}

/** The ledger's state of a holder, and its checks of the holder's claims (control-plane/quota). */
class Judge {
  readonly permits: Permit[] = [];
  readonly #units: Units;
  readonly #limit: number;
  readonly #mutant: Mutant | null;
  readonly #place: number;
  /** Taken by PERMITs of this epoch, less units that their voids gave back. */
  #used = 0;
  #epoch = 1;

  constructor(units: Units, of: { place: number; limit: number; mutant: Mutant | null }) {
    this.#units = units;
    this.#place = of.place;
    this.#limit = of.limit;
    this.#mutant = of.mutant;
  }

  get unused(): number {
    return this.#units.leased[this.#place] ?? 0;
  }

  get counted(): number {
    return this.permits.reduce((sum, { taken, isFreed }) => sum + (isFreed ? 0 : taken), 0);
  }

  lease(): void {
    if (this.#units.free === 0) return;
    this.#units.free--;
    this.#setUnused(this.unused + 1);
  }

  /** A PERMIT of so many units, settled or shipped, which names leases of this holder or of another one. */
  permit(units: number, isOwnLease: boolean): void {
    const has = isOwnLease ? this.unused : 0;
    if (units > has && this.#mutant !== 'believes_what_a_permit_took') return;
    const taken = Math.min(units, has);
    this.#setUnused(this.unused - taken);
    this.#used += taken;
    this.#units.posted += taken;
    const id = `lie ${this.permits.length}`;
    this.permits.push({ id, units, taken, epoch: this.#epoch, isVoid: false, isFreed: false });
  }

  void(permit: Permit): void {
    if (permit.isVoid) return;
    permit.isVoid = true;
    if (permit.epoch !== this.#epoch) return;
    permit.isFreed = true;
    const back = Math.min(permit.taken, this.#used);
    this.#used -= back;
    this.#units.posted -= back;
    this.#free(this.#mutant === 'believes_what_a_permit_took' ? permit.units : back);
  }

  voidOfNothing(units: number): void {
    this.#giveBack(units, this.#mutant === 'believes_what_a_void_frees' ? units : this.unused);
  }

  return(units: number): void {
    this.#giveBack(units, this.#returnable);
  }

  endEpoch(): void {
    this.#giveBack(this.#limit, this.#returnable);
    this.#setUnused(0);
    this.#used = 0;
    this.#epoch++;
  }

  get #returnable(): number {
    return this.unused + (this.#mutant === 'believes_what_comes_back' ? this.#used : 0);
  }

  #giveBack(wanted: number, most: number): void {
    const back = Math.min(wanted, most);
    this.#setUnused(Math.max(0, this.unused - back));
    this.#free(back);
  }

  #free(units: number): void {
    this.#units.free = Math.min(this.#limit, this.#units.free + units);
  }

  #setUnused(units: number): void {
    this.#units.leased[this.#place] = units;
  }
}

/**
 * A lying holder of a foreign account beside the honest ones. It draws on the same limit and makes arbitrary
 * claims about its leases, in any order. No other holder waits for it.
 */
export class LyingHolder {
  readonly #judge: Judge;
  #liesLeft: number;

  constructor(
    units: Units,
    of: {
      readonly place: number;
      readonly limit: number;
      readonly mutant: Mutant | null;
      readonly lies: number;
    },
  ) {
    this.#judge = new Judge(units, of);
    this.#liesLeft = of.lies;
  }

  /** Units of its valid PERMITs. */
  get permitted(): number {
    return this.#judge.permits.reduce((sum, { units, isVoid }) => sum + (isVoid ? 0 : units), 0);
  }

  /** Units that count as taken by its PERMITs: by valid ones, and by voids that came too late. */
  get counted(): number {
    return this.#judge.counted;
  }

  events(): WorldEvent[] {
    if (this.#liesLeft === 0) return [];
    const judge = this.#judge;
    const lies: Record<string, () => void> = {
      'leases a unit': () => judge.lease(),
      'permits a unit': () => judge.permit(1, true),
      'permits two units': () => judge.permit(2, true),
      'permits a unit of another holder': () => judge.permit(1, false),
      'voids what it never settled': () => judge.voidOfNothing(2),
      'returns two units': () => judge.return(2),
      'ends its epoch': () => judge.endEpoch(),
    };
    for (const permit of judge.permits.slice(-2)) lies[`voids ${permit.id}`] = () => judge.void(permit);
    return Object.entries(lies).map(([name, lie]) => ({
      name: `the liar ${name}`,
      isDue: false,
      happen: () => {
        this.#liesLeft--;
        lie();
      },
    }));
  }
}
