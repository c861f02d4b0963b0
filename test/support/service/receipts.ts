import { certify, signTurn } from '../../../shared/attestation/decision-receipt.ts';
import { chooseEd25519 } from '../../../shared/crypto/choose-ed25519.ts';
import { contentHash } from '../../../shared/crypto/content-hash.ts';
import { thumbprint } from '../../../shared/crypto/keyset.ts';
import { must } from '../../../shared/errors/assert.ts';
import { hourMs } from '../../../shared/model/time.ts';
import {
  type DecisionReceipt,
  type ReceiptStatement,
  receiptFormat,
} from '../../../shared/wire/evidence/decision-receipt.ts';
import type { Api } from './api.ts';

const iso = (atMs: number): string => new Date(atMs).toISOString();

/** As a sidecar of this service would sign it: its operator holds all keys. Of a record that never was. */
export function testReceipt(
  { deps }: Pick<Api, 'deps'>,
  stated: Partial<ReceiptStatement> = {},
  { seed = 9, accountId = 'acct_of_a_test', atMs = deps.clock.now() as number } = {},
): DecisionReceipt {
  const signer = chooseEd25519().signer(Buffer.alloc(32, seed));
  const statement: ReceiptStatement = {
    attestation_id: 'att_01m7w73bk9f1gv8q5vw2f2k1qm',
    chain_id: 'pass_01m7w8f9hdzbnzm1x73rrwwwpj',
    decision: 'PERMIT',
    gate_id: null,
    issued_at: iso(atMs - 3 * hourMs),
    log_by: iso(atMs - hourMs),
    reason: null,
    request_hash: contentHash({ permission_key: 'orders:create' }),
    ...stated,
  };
  const certificate = certify(
    {
      account_id: accountId,
      expires_at: iso(atMs + hourMs),
      kid: thumbprint(signer.publicKey),
      not_before: iso(atMs - 4 * hourMs),
      sidecar_id: 'side_01k7w8f9hdzbnzm1x73rrwwwpj',
      x: Buffer.from(signer.publicKey).toString('base64url'),
    },
    deps.signingKeys.current('attestation'),
  );
  const [signed] = signTurn(signer, [statement, { ...statement, reason: 'another' }]);
  return { format: receiptFormat, ...must(signed, 'a receipt'), certificate, history: null };
}
