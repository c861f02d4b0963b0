import type { AttestationId } from '../../shared/model/ids.ts';
import { administer } from '../audit/administer.ts';
import type { Caller } from '../http/caller.ts';
import type { AppendingDeps } from './deps.ts';
import { readFacts } from './facts-store.ts';
import { getAttestationUseCase } from './get-attestation-use-case.ts';

const operation = 'getAttestationFacts';

/** `GET /attestations/:id/facts`: the caller's own. Whoever reads facts is in the audit. */
export async function getFacts(deps: AppendingDeps, caller: Caller, text: string) {
  await getAttestationUseCase.run(deps, caller, text);
  const id = text as AttestationId;
  return administer(deps, caller, async (tx) => {
    const result = await readFacts(tx, caller, id);
    const after = { facts: result.facts.length };
    return { result, audited: { operation, target: id, before: null, after } };
  });
}

/** `GET /attestations/export?facts=1` hands out all of them. */
export const auditFactsExport = (deps: AppendingDeps, caller: Caller, format: string): Promise<void> =>
  administer(deps, caller, async () => ({
    result: undefined,
    audited: { operation, target: caller.accountId, before: null, after: { exported: format } },
  }));
