import { Answers, type Asked } from '../race/answers.ts';

/** What a limit may say at a gate that has one; its caps are held against the records besides. */
const byLimits = /^200 BLOCK (rate_limit_exceeded|spend_limit_exceeded|spend_cap_exceeded)$/;
/** A client asked for it: a key once more for another request, or an approval a second time. */
const byClient = /^(409 idempotency_conflict|200 BLOCK approval_\w+)$/;

/**
 * Answers with those counted that nobody should get while programs are replaced. Answers of a program whose
 * machine is busy are counted for themselves: there are some in any case.
 */
export class ToldWhileReplaced extends Answers {
  readonly #openGateId: string;
  /** Where, at what kind of server, and what, with how often. */
  readonly refused = new Map<string, number>();
  answers = 0;
  /** Sent away for a moment, with Retry-After: on a busy machine also where nothing is replaced. */
  busy = 0;
  /** Names the server of an origin. */
  nameOf: (origin: string) => string = (origin) => origin;

  constructor(openGateId: string) {
    super();
    this.#openGateId = openGateId;
  }

  override asks(asked: Asked, server: string): (end: string | null) => void {
    const ends = super.asks(asked, server);
    const sentAt = this.nameOf(server);
    return (end) => {
      ends(end);
      if (end === null) return;
      this.answers++;
      if (end === '503 overloaded') this.busy++;
      else if (!this.#isRight(asked, end)) this.#refuse(asked, sentAt, end);
    };
  }

  #refuse({ lane }: Asked, by: string, end: string): void {
    const gate = lane.gateId === this.#openGateId ? 'gate without limits' : 'gate with limits';
    const what = `${gate}, ${by}: ${end}`;
    this.refused.set(what, (this.refused.get(what) ?? 0) + 1);
  }

  #isRight({ lane, key }: Asked, end: string): boolean {
    if (end.startsWith('200 PERMIT')) return true;
    if (byClient.test(end)) return end.startsWith('409') === (key !== null) || !end.startsWith('409');
    if (lane.gateId === this.#openGateId) return false;
    return end.startsWith('200 SUSPEND') || byLimits.test(end);
  }
}
