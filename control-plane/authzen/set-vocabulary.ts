import { invalidRequest } from '../../shared/errors/api-error.ts';
import type { AuthzenVocabulary } from '../../shared/model/authzen-vocabulary.ts';
import { renderVocabulary, type Vocabulary } from '../../shared/wire/api/authzen-vocabulary.ts';
import { administer } from '../audit/administer.ts';
import { findGates } from '../gates/gate-store.ts';
import type { Caller } from '../http/caller.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { distinct } from '../storage/distinct.ts';
import { writeVocabulary } from './vocabulary-store.ts';

/** Replaces the vocabulary as a whole. Its gates must exist now; one that is deleted later is not found. */
export const setVocabulary = (
  deps: SigningDeps,
  caller: Caller,
  vocabulary: AuthzenVocabulary,
): Promise<Vocabulary> =>
  administer(deps, caller, async (tx) => {
    const { accountId, mode } = caller;
    const gates = await findGates(tx, accountId, distinct(vocabulary.resources.map(({ gateId }) => gateId)));
    const unknown = vocabulary.resources.findIndex(({ gateId }) => gates.get(gateId)?.mode !== mode);
    if (unknown >= 0)
      throw invalidRequest(`resources.${unknown}.gate_id`, 'There is no gate of yours with this id.');
    const before = renderVocabulary(await writeVocabulary(tx, caller, vocabulary));
    const result = renderVocabulary(vocabulary);
    return {
      result,
      audited: {
        operation: 'setAuthzenVocabulary',
        target: accountId,
        before: { ...before },
        after: { ...result },
      },
    };
  });
