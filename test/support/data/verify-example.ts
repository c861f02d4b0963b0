import { signatureMessage, signedBody } from '../../../shared/attestation/record.ts';
import { canonicalJson } from '../../../shared/crypto/canonical-json.ts';
import { must } from '../../../shared/errors/assert.ts';
import type { MicroUsd } from '../../../shared/model/money.ts';
import type { PermissionKey } from '../../../shared/model/permission.ts';
import {
  at,
  chainOf,
  exportLinesOf,
  jwksOf,
  sampleExtras,
  sampleId,
  sampleKey,
  samplePolicy,
  sampleRecord,
} from './sample-chains.ts';

/** The worked example of docs/verify.md: one passport's chain of two records, and one of a gate. */
function workedExample() {
  const key = sampleKey(7);
  const gateId = sampleId('gate', 1);
  const policy = samplePolicy(key, { spend_limits: { daily_usd: 0.5 } });
  const ofPassport = chainOf(
    [
      sampleRecord(1),
      sampleRecord(2, {
        ...sampleExtras,
        policyHash: policy.policy_hash,
        approvalId: null,
        walletId: null,
        holdExpiresAtMs: null,
        proof: null,
        decision: 'BLOCK',
        reason: 'spend_limit_exceeded',
        amountMicroUsd: 900_000_000 as MicroUsd,
        pii: [{ pointer: '/customer/e-mail', type: 'email' }],
      }),
    ],
    key,
  );
  const ofGate = chainOf(
    [
      sampleRecord(3, {
        chainId: gateId,
        passportId: null,
        decision: 'BLOCK',
        reason: 'passport_signature_invalid',
        permissionKey: 'orders:create' as PermissionKey,
        amountMicroUsd: null,
        constraintsEvaluated: ['passport'],
        source: 'control-plane',
      }),
    ],
    key,
  );
  const jwks = jwksOf(key);
  const lines = exportLinesOf([ofGate, ofPassport], {
    keyIds: [key.kid],
    createdAtMs: at(60_000),
    policies: [policy],
  });
  const second = must(ofPassport[1], 'the chain has two records');
  return {
    jwks,
    exportText: lines.join(''),
    second,
    body: canonicalJson(signedBody(second)),
    message: signatureMessage(second.hash),
  };
}

const begin = '<!-- example: begin (written by the test of this page; UPDATE_DOCS=1 writes it anew) -->';
const end = '<!-- example: end -->';

/** The page with its worked example as it must be now. */
export function withExample(page: string): string {
  const from = page.indexOf(begin);
  const to = page.indexOf(end);
  if (from < 0 || to < from) throw new Error('docs/verify.md has lost the markers of its example');
  return `${page.slice(0, from) + begin}\n\n${renderExample()}\n${page.slice(to)}`;
}

function renderExample(): string {
  const { jwks, exportText, second, body, message } = workedExample();
  const block = (language: string, text: string) => `\`\`\`${language}\n${text.trimEnd()}\n\`\`\`\n`;
  return [
    'The private key of this example is the byte `07`, 32 times. The JWKS:\n',
    block('json', JSON.stringify(jwks, null, 2)),
    'The export, nine lines and a newline after each:\n',
    block('jsonl', exportText),
    `The last record has sequence number ${second.sequence}. Without \`hash\` and \`signature\` its RFC 8785 form is these ` +
      `${Buffer.byteLength(body)} bytes:\n`,
    block('json', body),
    'Their SHA-256 in hex, after `sha256:`, is its `hash`. The text that is signed:\n',
    block('text', message),
    'and its Ed25519 signature in base64url:\n',
    block('text', second.signature),
  ].join('\n');
}

/** The text of the n-th fenced block of that language. */
export function fencedBlock(page: string, language: string, index = 0): string {
  const blocks = [...page.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'gm'))];
  return must(blocks[index]?.[1], `the page has a block of ${language}`);
}
