import type { SettlementAnswer } from '../../shared/wire/settlement.ts';

/** Ends the transaction of a settlement with everything undone, and says what the sidecar is answered. Not an error of anybody's. */
export class NothingSettled extends Error {
  override readonly name = 'NothingSettled';
  readonly answer: SettlementAnswer;

  constructor(answer: SettlementAnswer) {
    super(`nothing is settled: ${answer.kind}`);
    this.answer = answer;
  }
}

export const refusal = (message: string): NothingSettled => new NothingSettled({ kind: 'refused', message });
