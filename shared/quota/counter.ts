import type { Branded } from '../model/brand.ts';
import type { AccountId, GateId, PassportId, StandingApprovalId } from '../model/ids.ts';

/**
 * What is counted, and for which owner. Plan and rate count requests, spend counts micro-USD; a counter's
 * unit never changes, so the ledger need not know it. The owner comes from the API key, the gate or the
 * verified passport, never from a body (contract §5).
 */
export type Counter =
  | { readonly kind: 'plan'; readonly accountId: AccountId }
  /** A limit of a gate; with a passport if the limit has `per: passport`. */
  | {
      readonly kind: 'gate_rate' | 'gate_spend';
      readonly gateId: GateId;
      readonly passportId: PassportId | null;
    }
  /** A passport's own limit, across all gates. */
  | { readonly kind: 'passport_rate' | 'passport_spend'; readonly passportId: PassportId }
  /** The total of a standing approval at its gate. */
  | {
      readonly kind: 'standing_approval';
      readonly gateId: GateId;
      readonly standingApprovalId: StandingApprovalId;
    };

/** The name of a counter in the ledger. */
export type CounterKey = Branded<string, 'CounterKey'>;

/**
 * `<kind>:<owner>`, or `<kind>:<gate>:<passport>`. Ids contain no colon, so two counters never share a key. A
 * standing approval is spelled as money of its gate: so control planes of 0.2.0 post what its PERMITs took.
 */
export function counterKey(counter: Counter): CounterKey {
  switch (counter.kind) {
    case 'plan':
      return `plan:${counter.accountId}` as CounterKey;
    case 'gate_rate':
    case 'gate_spend': {
      const ofGate = `${counter.kind}:${counter.gateId}`;
      return (counter.passportId === null ? ofGate : `${ofGate}:${counter.passportId}`) as CounterKey;
    }
    case 'passport_rate':
    case 'passport_spend':
      return `${counter.kind}:${counter.passportId}` as CounterKey;
    case 'standing_approval':
      return `gate_spend:${counter.gateId}:${counter.standingApprovalId}` as CounterKey;
  }
}

/** Whether a counter counts micro-USD, by its name in the ledger; else requests. */
export const isMoney = (counter: CounterKey): boolean =>
  counter.slice(0, counter.indexOf(':')).endsWith('_spend');
