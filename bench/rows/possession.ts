import { generateKeyPairSync } from 'node:crypto';
import { agentSigner } from '../../clients/node/src/agent.ts';
import { jwkOfAgentKey, parseAgentKey } from '../../shared/crypto/agent-key.ts';
import { encodeBase64url } from '../../shared/crypto/base64url.ts';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { compileGate } from '../../shared/decision/compile-gate.ts';
import { decide } from '../../shared/decision/decide.ts';
import { noWindows, type RequestFacts, type VerifiedPassport } from '../../shared/decision/facts.ts';
import { assert, must } from '../../shared/errors/assert.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { openProof } from '../../shared/verification/open-proof.ts';
import { noConstraints } from '../../shared/wire/api/constraints.ts';
import { ProofMemory } from '../../sidecar/settle/proof-memory.ts';
import { active, gate, permission, token, verifyUnknown } from '../harness/bench-facts.ts';
import { callsOf } from '../harness/calls.ts';
import { interleaved } from '../harness/rounds.ts';
import type { BenchOptions } from '../harness/row.ts';
import { type Table, tableLine } from '../harness/table.ts';
import { wantedOf } from '../harness/targets.ts';

const callsPerSample = 100;
/** More than are decided in one round: each counts once. */
const proofCount = 4_096;

/** Decisions with a proof by RFC 9421 beside the one signature that each of them checks, on this core. */
export async function possession({ size, say }: BenchOptions): Promise<Table> {
  const rounds = { full: 5, quick: 3, brief: 1 }[size];
  const secondsEach = { full: 1, quick: 0.2, brief: 0.02 }[size];
  const { withProof, bare } = sides();
  const both = [
    callsOf('decisions with a proof', withProof, callsPerSample),
    callsOf('the bare signature', bare, callsPerSample),
  ];
  const figures = await interleaved(both, { rounds, seconds: secondsEach, say });
  const lines = [
    {
      name: 'decisions with a proof',
      does: 'reads the structured fields, checks what is covered, writes the signature base, checks the signature, remembers the proof and decides',
      doesNot: 'HTTP, the record, the hand-over to a thread',
      target: null,
    },
    {
      name: 'the bare signature',
      does: 'checks the same Ed25519 signatures over the same bytes',
      doesNot: 'anything else',
      target: wantedOf('P26'),
    },
  ];
  return {
    row: 'possession',
    title: 'Proofs of possession in process',
    ...{ unit: 'proofs/s', rounds, secondsEach },
    lines: lines.map((line) => tableLine(line, figures, 'decisions with a proof')),
    skipped: [],
    notes: [`${proofCount} proofs in turn, signed before; the memory is a new one after each turn.`],
  };
}

function sides(): { readonly withProof: () => unknown; readonly bare: () => unknown } {
  // Proofs hold for some minutes from now.
  const nowMs = systemClock.now();
  const engine = chooseEd25519();
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const { x = '' } = publicKey.export({ format: 'jwk' });
  const agentKey = `ed25519:${x}`;
  const verified = must(verifyUnknown(token), 'the token of the bench verifies');
  const passport: VerifiedPassport = { ...verified, agentKey };
  const demanding = compileGate({
    ...gate,
    trustLevel: 'L1',
    constraints: { ...noConstraints, proofOfPossession: 'sidecar' },
    shadow: null,
  });
  // What the signer looks at is the key in the token, which here is that of the service.
  const shown = `h.${encodeBase64url(Buffer.from(JSON.stringify({ cnf: { jwk: jwkOfAgentKey(agentKey) } })))}.s`;
  const signer = agentSigner(shown, privateKey, { lifetimeS: 300 });
  const request = { method: 'POST', url: 'https://shop.example/orders/7?currency=usd' };
  const asked = { token: shown, tokenHash: sha256Hex(shown), agentKey };
  const proofs = Array.from({ length: proofCount }, () => ({ ...request, headers: signer(request) }));
  const opened = proofs.map((proof) => must(openProof(proof, asked), 'a proof of the client opens'));
  const verify = engine.verifier(must(parseAgentKey(agentKey), 'a usable key').bytes);
  const messages = opened.map(({ signedText, signature }) => ({ bytes: Buffer.from(signedText), signature }));
  const facts: RequestFacts = {
    permissionKey: permission,
    ...{ amountMicroUsd: null, currency: null, domain: null, approvalId: null, approval: 'none' },
    ...{
      idempotencyKey: null,
      hold: null,
      proof: { kind: 'unread' },
      display: null,
      asked: {},
      requestHash: '',
      pii: null,
    },
  };
  let memory = new ProofMemory();
  let turn = 0;
  const withProof = () => {
    const place = turn++ % proofCount;
    if (place === 0) memory = new ProofMemory();
    const proof = openProof(proofs[place], asked);
    assert(
      proof !== null && verify(Buffer.from(proof.signedText, 'latin1'), proof.signature),
      'a good proof',
    );
    const { scheme, fromMs, untilMs, replayName } = proof;
    assert(memory.use(replayName, untilMs, nowMs) === 'first', 'each proof counts once in a turn');
    const known = {
      ...facts,
      proof: { kind: 'verified', scheme, fromMs, untilMs, firstUse: 'sidecar' },
    } as const;
    const decision = decide(
      demanding,
      { kind: 'verified', passport, standing: active },
      known,
      noWindows,
      nowMs,
    );
    assert(decision.outcome === 'PERMIT', 'a good proof is permitted');
    return decision;
  };
  let next = 0;
  const bare = () => {
    const { bytes, signature } = must(messages[next++ % proofCount], 'one of the messages');
    assert(verify(bytes, signature), 'a good signature');
    return true;
  };
  return { withProof, bare };
}
