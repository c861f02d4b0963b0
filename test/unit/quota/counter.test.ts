import { expect, it } from 'vitest';
import { type IdPrefix, makeId } from '../../../shared/model/ids.ts';
import type { UnixMillis } from '../../../shared/model/time.ts';
import { type Counter, counterKey } from '../../../shared/quota/counter.ts';

const id = <P extends IdPrefix>(prefix: P) => makeId(prefix, 0 as UnixMillis, new Uint8Array(10));
const zeros = '0'.repeat(26);

it.each<[Counter, string]>([
  [{ kind: 'plan', accountId: id('acct') }, `plan:acct_${zeros}`],
  [{ kind: 'gate_rate', gateId: id('gate'), passportId: null }, `gate_rate:gate_${zeros}`],
  [{ kind: 'gate_spend', gateId: id('gate'), passportId: null }, `gate_spend:gate_${zeros}`],
  [
    { kind: 'gate_rate', gateId: id('gate'), passportId: id('pass') },
    `gate_rate:gate_${zeros}:pass_${zeros}`,
  ],
  [{ kind: 'passport_rate', passportId: id('pass') }, `passport_rate:pass_${zeros}`],
  [{ kind: 'passport_spend', passportId: id('pass') }, `passport_spend:pass_${zeros}`],
])('names the counter %j', (counter, key) => {
  expect(counterKey(counter)).toBe(key);
});
