import { Type } from 'typebox';
import { closed } from '../../shared/wire/api/fields.ts';
import { AttestationAnswer } from '../../shared/wire/evidence/attestation.ts';
import { getAttestationUseCase } from '../attestations/get-attestation-use-case.ts';
import { defineTool } from './tool.ts';

export const getAttestation = defineTool({
  name: 'get_attestation',
  title: 'Read an attestation',
  description: 'Reads the signed record of one decision, by the attestation_id that the decision answered.',
  scope: getAttestationUseCase.scope,
  hints: { readOnlyHint: true },
  holdsForeignText: true,
  input: closed({ attestation_id: Type.String() }),
  output: AttestationAnswer,
  run: (deps, caller, { attestation_id: id }) => getAttestationUseCase.run(deps, caller, id),
});
