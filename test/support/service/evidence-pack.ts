import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import { expect } from 'vitest';
import { verifyPackCommand } from '../../../cli/evidence/verify-pack.ts';
import type { Api, LoggedIn, Reply } from './api.ts';
import { giveAnswer, registerPasskey, signAnswer } from './signed-answers.ts';

/** The files of an archive in which nothing is compressed, each held against its checksum. */
export function unpackStored(zip: Buffer): Map<string, Buffer> {
  const files = new Map<string, Buffer>();
  const end = zip.lastIndexOf(Buffer.from('PK\u0005\u0006', 'latin1'));
  let at = zip.readUInt32LE(end + 16);
  for (let left = zip.readUInt16LE(end + 10); left > 0; left--) {
    const [crc, size, local] = [16, 20, 42].map((place) => zip.readUInt32LE(at + place)) as [
      number,
      number,
      number,
    ];
    const [name, extra] = [28, 30].map((place) => zip.readUInt16LE(at + place)) as [number, number];
    const begin = local + 30 + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28);
    const content = zip.subarray(begin, begin + size);
    expect(crc32(content)).toBe(crc);
    files.set(zip.toString('latin1', at + 46, at + 46 + name), content);
    at += 46 + name + extra;
  }
  return files;
}

/** Writes them below the folder; returns the folder of the pack. */
export function writeFiles(folder: string, files: ReadonlyMap<string, Uint8Array>): string {
  for (const [name, content] of files) {
    const path = join(folder, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content);
  }
  return join(folder, 'evidence');
}

export const unpackFile = (zip: string, folder: string): string =>
  writeFiles(folder, unpackStored(readFileSync(zip)));

export async function verifyFolder(folder: string, own: { jwks?: string; logPolicy?: string } = {}) {
  const said: string[] = [];
  const sink = { write: (text: string) => void said.push(text) };
  const code = await verifyPackCommand({ folder, ...own, output: sink, errors: sink });
  return { code, said: said.join('') };
}

export interface PackStory {
  readonly since: string;
  readonly gate: string;
  readonly otherGate: string;
  readonly passport: string;
  readonly approver: LoggedIn;
  /** That were answered in the period, and one that was not. */
  readonly approvals: { readonly approved: string; readonly denied: string; readonly open: string };
  /** Decides once more, at the gate and with the passport of the story. */
  readonly decide: (amount: number, more?: object) => Promise<Reply['body']>;
}

/**
 * A gate with limits, approvals by passkey and holds, and an agent that is permitted, refused and asked
 * about; money that is held, settled for less, and refunded.
 */
export async function playPackStory(
  api: Api,
  names: { agent?: string; permission?: string } = {},
): Promise<PackStory> {
  const { agent = 'Buyer', permission = 'orders:create' } = names;
  const since = new Date(api.deps.clock.now()).toISOString();
  const approver = await api.createUser({ role: 'approver' });
  const key = await registerPasskey(api, approver);
  const { gate_id: gate } = await api.createGate({
    constraints: {
      spend_limits: { per_transaction_usd: 50, daily_usd: 500 },
      approvals: { above_usd: 20, passkey: true },
      allowed_domains: ['*.example.com'],
    },
  });
  const { gate_id: otherGate } = await api.createGate({});
  const { passport_id: passport, jwt } = await api.issuePassport({
    agent_name: agent,
    permissions: [permission, 'orders:read'],
  });
  const at = (gateId: string, request: object) =>
    api.call({ url: `/v1/gates/${gateId}/check`, body: { passport: jwt, request } }).then(({ body }) => body);
  const decide = (amount: number, more: object = {}) =>
    at(gate, { permission_key: permission, amount, domain: 'shop.example.com', ...more });
  const outcome = async (id: string, verb: string, body: object) => {
    const { status, body: answer } = await api.call({ url: `/v1/attestations/${id}/${verb}`, body });
    expect([200, 201], JSON.stringify(answer)).toContain(status);
  };
  await decide(12.5);
  const refunded = await decide(10);
  await outcome(refunded.attestation_id, 'refund', { amount: 4 });
  const settled = await decide(8, { hold: true });
  await outcome(settled.attestation_id, 'outcome', { outcome: 'served', amount: 5 });
  const failed = await decide(7, { hold: true });
  await outcome(failed.attestation_id, 'outcome', { outcome: 'failed' });
  await decide(3, { hold: true });
  expect(await decide(51)).toMatchObject({ decision: 'BLOCK' });
  expect(await decide(1, { domain: 'elsewhere.example' })).toMatchObject({ decision: 'BLOCK' });
  await at(otherGate, { permission_key: 'orders:read', amount: 1 });
  const asked = await decide(30);
  const id: string = asked.approval_id;
  const assertion = await signAnswer(api, { person: approver, made: key, id }, 'approved');
  expect((await giveAnswer(api, approver, { id, answer: 'approved' }, assertion)).status).toBe(200);
  expect(await decide(30, { approval_id: id })).toMatchObject({ decision: 'PERMIT' });
  const open = await decide(25);
  expect(open, JSON.stringify(open)).toMatchObject({ decision: 'SUSPEND' });
  const denied = await decide(21);
  const no = await signAnswer(api, { person: approver, made: key, id: denied.approval_id }, 'denied');
  const refusal = { id: denied.approval_id, answer: 'denied' } as const;
  expect((await giveAnswer(api, approver, refusal, no)).status).toBe(200);
  // No token that verifies: the chain of the gate.
  await api.call({ url: `/v1/gates/${gate}/check`, body: { passport: 'none', request: {} } });
  return {
    ...{ since, gate, otherGate, passport, approver, decide },
    approvals: { approved: id, denied: denied.approval_id, open: open.approval_id },
  };
}
