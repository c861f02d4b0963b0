import { assert, must } from '../../../shared/errors/assert.ts';
import { limits } from '../../../shared/model/limits.ts';
import { windowAt } from '../../../shared/quota/window.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import type { LeaseAnswer, LeaseGrantBody, LeaseRequest } from '../../../shared/wire/sync/lease-call.ts';
import type { WindowOfCounter } from '../../../sidecar/quota/held-window.ts';
import type { LeaseBody, LeaseClient } from '../../../sidecar/quota/lease-caller.ts';

/**
 * The rules of the quota ledger in a page, without a database: what a holder may expect of a control plane.
 * It refuses to be misused.
 */
export class ModelLedger implements LeaseClient {
  /** By counter and window; what is not here has no limit. */
  isAway = false;
  readonly limits = new Map<string, number>();
  /** Units given out, by counter, window and its start. */
  readonly leased = new Map<string, number>();
  /** Every call that arrived, repeats included. */
  readonly calls: LeaseBody[] = [];
  /** It refuses every call, and does nothing. */
  isOverloaded = false;
  /** Called before each answer; what it throws is what the holder gets, after the call has done its work. */
  afterwards: (body: LeaseBody) => Promise<void> | void = () => undefined;
  /** The same before the call does anything. */
  before: (body: LeaseBody) => Promise<void> | void = () => undefined;
  readonly #clock: Pick<Clock, 'now'>;
  #last = new Map<string, { readonly seq: number; readonly answer: LeaseAnswer }>();

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  /**
   * It loses what it knew of its holders, as a database that was set back does; what was given out stays
   * given out.
   */
  forgetHolders(): void {
    this.#last.clear();
  }

  async lease(body: LeaseBody): Promise<LeaseAnswer | 'holder_unknown' | 'overloaded'> {
    await this.before(body);
    this.calls.push(body);
    if (this.isOverloaded) return 'overloaded';
    const last = this.#last.get(body.holder);
    if (last === undefined && body.seq !== 1) return 'holder_unknown';
    if (last !== undefined) {
      assert(body.seq === last.seq || body.seq === last.seq + 1, 'calls are numbered without holes');
    }
    const answer = last?.seq === body.seq ? this.#toldAnew(last.answer) : this.#do(body);
    this.#last.set(body.holder, { seq: body.seq, answer });
    await this.afterwards(body);
    return answer;
  }

  leasedOf(name: Pick<WindowOfCounter, 'kind' | 'window'>): number {
    const sums = [...this.leased].filter(([key]) => key.startsWith(`${name.kind} ${name.window} `));
    return sums.reduce((sum, [, units]) => sum + units, 0);
  }

  #do({ returns, asks }: LeaseBody): LeaseAnswer {
    assert(
      returns.length <= limits.leasesPerCallMax && asks.length <= limits.leasesPerCallMax,
      'a call is bounded',
    );
    assert(new Set(asks.map(nameOf)).size === asks.length, 'a call asks for each window once');
    assert(new Set(returns.map(nameOf)).size === returns.length, 'a call returns each window once');
    for (const each of returns) {
      const key = `${nameOf(each)} ${each.starts_at_ms}`;
      const leased = must(this.leased.get(key), 'what comes back was given out');
      assert(each.units > 0 && each.units <= leased, 'no more comes back than was given out');
      this.leased.set(key, leased - each.units);
    }
    return { grants: asks.map((ask) => this.#grant(ask)) };
  }

  /** The same grants; what is left of their windows is less. */
  #toldAnew({ grants }: LeaseAnswer): LeaseAnswer {
    const nowMs = this.#clock.now();
    return { grants: grants.map((grant) => ({ ...grant, left_ms: Math.max(0, grant.ends_at_ms - nowMs) })) };
  }

  #grant(ask: LeaseRequest): LeaseGrantBody {
    const nowMs = this.#clock.now();
    const window = windowAt(ask.window, nowMs);
    const key = `${nameOf(ask)} ${window.startsAtMs}`;
    const limit = this.limits.get(`${ask.kind} ${ask.window}`) ?? null;
    const leased = this.leased.get(key) ?? 0;
    const left = Math.max(0, (limit ?? 0) - leased);
    assert(ask.units_min <= ask.units_needed, 'the least is no more than all');
    assert(Number.isSafeInteger(ask.units_needed + ask.units_ahead), 'a number of units is exact');
    const needed = left < ask.units_min ? 0 : Math.min(left, ask.units_needed);
    const ahead =
      needed < ask.units_needed
        ? 0
        : Math.min(ask.units_ahead, Math.floor((left - needed) / limits.leaseAheadPart));
    const granted = needed + ahead;
    this.leased.set(key, leased + granted);
    return {
      granted,
      limit,
      leased: leased + granted,
      starts_at_ms: window.startsAtMs,
      ends_at_ms: window.endsAtMs,
      left_ms: window.endsAtMs - nowMs,
    };
  }
}

const nameOf = ({ kind, window, gate_id, passport_id }: WindowOfCounter): string =>
  `${kind} ${window} ${gate_id} ${passport_id}`;
