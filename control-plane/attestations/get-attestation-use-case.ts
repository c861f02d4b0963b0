import { ApiError } from '../../shared/errors/api-error.ts';
import type { AttestationId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { renderAttestation } from '../../shared/wire/evidence/attestation.ts';
import { pathId } from '../http/path-id.ts';
import type { UseCase } from '../http/use-case.ts';
import { renderMonth } from './archive-records.ts';
import { archivedBefore, monthBegins } from './archive-store.ts';
import type { AppendingDeps } from './deps.ts';
import { timeOfId } from './id-uuid.ts';
import { findAttestation } from './list-attestations.ts';

/** `GET /attestations/:id` */
export const getAttestationUseCase = {
  scope: 'attestations:read',
  run: async (deps, caller, text) => {
    const id = pathId('att', text, 'attestation_not_found');
    const attestation = await findAttestation(deps.sql, caller, id);
    if (attestation === null) throw await notFound(deps, caller, id);
    return renderAttestation(attestation);
  },
} as const satisfies UseCase<AppendingDeps, string, object>;

/** Whether an archive has the record is not known: its id went with it. */
async function notFound(
  { sql }: Pick<AppendingDeps, 'sql'>,
  owner: Owner,
  id: AttestationId,
): Promise<ApiError> {
  const before = await archivedBefore(sql, owner);
  if (before === null || timeOfId(id) >= monthBegins(before)) return new ApiError('attestation_not_found');
  return new ApiError('attestation_not_found', {
    message: `No such attestation here. Those that arrived before ${renderMonth(before)} are in archives.`,
  });
}
