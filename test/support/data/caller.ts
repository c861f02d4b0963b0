import type { Deps } from '../../../control-plane/deps.ts';
import type { Caller } from '../../../control-plane/http/caller.ts';
import { must } from '../../../shared/errors/assert.ts';
import type { AccountId } from '../../../shared/model/ids.ts';

/** Whoever calls a use case directly, not by HTTP: a live key of this account. */
export function callerOfAccount(
  { random, clock }: Pick<Deps, 'random' | 'clock'>,
  accountId: AccountId,
): Caller {
  const nowMs = clock.now();
  const keyId = random.newId('key', nowMs);
  return {
    accountId,
    mode: 'live',
    scopes: [],
    expiresAtMs: null,
    madeKeysEndWith: null,
    isOperator: false,
    person: null,
    planLimits: { requestsPerMinute: null, requestsPerDay: null },
    actor: { type: 'api_key', id: keyId, clientId: null },
    requestId: random.newId('req', nowMs),
  };
}

export async function operatorCaller(deps: Pick<Deps, 'sql' | 'random' | 'clock'>): Promise<Caller> {
  const [row] = await deps.sql<
    { account_id: AccountId }[]
  >`SELECT account_id FROM accounts WHERE is_operator`;
  return callerOfAccount(deps, must(row, 'the first start makes the operator').account_id);
}
