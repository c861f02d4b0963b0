import { createReadStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { signatureMessage } from '../../shared/attestation/record.ts';
import { canonicalJson } from '../../shared/crypto/canonical-json.ts';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { textHash } from '../../shared/crypto/content-hash.ts';
import { keyset, parseJwks } from '../../shared/crypto/keyset.ts';
import { assert, must } from '../../shared/errors/assert.ts';

/**
 * The least that verifying an export can cost: `raw-verify.ts EXPORT JWKS SECONDS` takes records out of a
 * jsonl export beforehand, and then does nothing but their SHA-256 and the check of their signature, with the
 * engine that the verifier uses too.
 */
const [file = '', jwks = '', seconds = '1'] = process.argv.slice(2);
/** As many as fit in memory with ease. */
const recordsMax = 20_000;

const keys = keyset(chooseEd25519(), parseJwks(JSON.parse(await readFile(jwks, 'utf8'))));
const records: { body: string; hash: string; message: Uint8Array; signature: Uint8Array; kid: string }[] = [];
for await (const line of createInterface({ input: createReadStream(file) })) {
  const { hash, signature, ...body } = JSON.parse(line);
  if (hash === undefined) continue;
  records.push({
    body: canonicalJson(body),
    hash,
    message: Buffer.from(signatureMessage(hash)),
    signature: Buffer.from(signature, 'base64url'),
    kid: body.signing_key_id,
  });
  if (records.length === recordsMax) break;
}

const cpuBefore = process.cpuUsage();
const before = performance.now();
const end = before + Number(seconds) * 1_000;
let done = 0;
while (performance.now() < end) {
  for (let i = 0; i < 100; i += 1) {
    const { body, hash, message, signature, kid } = must(records[done % records.length], 'there are records');
    assert(textHash(body) === hash, 'a good record has its hash');
    const { verify } = must(keys.find('attestation', kid), 'the JWKS has the key');
    assert(verify(message, signature), 'a good signature verifies');
    done += 1;
  }
}
const elapsedS = (performance.now() - before) / 1_000;
const cpu = process.cpuUsage(cpuBefore);
console.log(`RESULT ${done / elapsedS} ${(cpu.user + cpu.system) / 1e6 / elapsedS}`);
