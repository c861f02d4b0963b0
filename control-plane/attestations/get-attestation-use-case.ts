import { ApiError } from '../../shared/errors/api-error.ts';
import { renderAttestation } from '../../shared/wire/attestation.ts';
import { pathId } from '../http/path-id.ts';
import type { UseCase } from '../http/use-case.ts';
import type { AppendingDeps } from './deps.ts';
import { findAttestation } from './list-attestations.ts';

/** `GET /attestations/:id` */
export const getAttestationUseCase = {
  scope: 'attestations:read',
  run: async (deps, caller, text) => {
    const id = pathId('att', text, 'attestation_not_found');
    const attestation = await findAttestation(deps.sql, caller, id);
    if (attestation === null) throw new ApiError('attestation_not_found');
    return renderAttestation(attestation);
  },
} as const satisfies UseCase<AppendingDeps, string, object>;
