import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import type { RecordForm } from '../../shared/model/attestation.ts';
import { type Logger, silentLogger } from '../../shared/runtime/logger.ts';
import { until, untilAnswer } from '../support/base/until.ts';
import { startTestSidecar, type TestSidecar } from '../support/service/sidecar.ts';
import { useApi } from '../support/service/use-api.ts';

/** A sidecar keeps the form of records that was asked for, so that it writes it when it starts cut off. */

const api = useApi();
let gateId: string;
let jwt: string;
beforeAll(async () => {
  gateId = (await api.createGate({ trust_level: 'L1' })).gate_id;
  jwt = (await api.issuePassport()).jwt;
});

const formFile = ({ folder }: TestSidecar) => join(folder, 'record-form');

/** Started, told of form 2, and gone; its folder is there. */
async function gone(): Promise<TestSidecar> {
  const sidecar = await startTestSidecar({ api });
  onTestFinished(() => sidecar.removeFolder());
  await sidecar.caughtUp();
  await until(() => existsSync(formFile(sidecar)), { what: 'the form on disk' });
  await sidecar.close();
  expect(readFileSync(formFile(sidecar), 'utf8')).toBe('2');
  return sidecar;
}

async function again(options: Partial<Parameters<typeof startTestSidecar>[0]>): Promise<TestSidecar> {
  const sidecar = await startTestSidecar({ api, ...options });
  onTestFinished(() => sidecar.close());
  return sidecar;
}

/** The id of the record of a PERMIT. */
async function permitted(sidecar: TestSidecar): Promise<string> {
  const { body } = await untilAnswer(
    () => sidecar.check(gateId, jwt, { permission_key: 'orders:create' }),
    ({ status }) => status === 200,
    { what: 'a decision' },
  );
  expect(body.decision).toBe('PERMIT');
  return body.attestation_id;
}

/** By what a record in form 1 does not tell. */
async function formOf(id: string): Promise<RecordForm> {
  const read = () => api.call({ url: `/v1/attestations/${id}` });
  const { body } = await untilAnswer(read, ({ status }) => status === 200, { what: 'the record' });
  return body.policy_hash === null ? 1 : 2;
}

it.each([
  ['is as it was written', () => undefined, 2],
  ['is garbage', (path: string) => writeFileSync(path, 'form: 2'), 1],
] as const)(
  'a sidecar that starts while the control plane is away decides where its form of records %s, and writes form 2 when it is back',
  async (_what, damage, form) => {
    const before = await gone();
    damage(formFile(before));
    const sidecar = await again({ folder: before.folder, isCutOff: true });
    const cutOff = await permitted(sidecar);
    sidecar.resume();
    await sidecar.caughtUp();
    expect(await formOf(cutOff)).toBe(form);
    expect(await formOf(await permitted(sidecar))).toBe(2);
  },
);

it.each([
  ['a folder is in its place', (path: string) => mkdirSync(join(path, 'full'), { recursive: true })],
  ['the disk is full', (path: string) => symlinkSync('/dev/full', `${path}.new`)],
])(
  'a sidecar that cannot write the form of records where %s keeps its state on disk all the same, and the form when it can',
  async (_what, obstruct) => {
    const before = await gone();
    rmSync(formFile(before));
    obstruct(formFile(before));
    const said: string[] = [];
    const warn = (_fields: object, message: string) => void said.push(message);
    const logger: Logger = { ...silentLogger, warn, child: () => logger };
    const sidecar = await startTestSidecar({ api, folder: before.folder, logger });
    await sidecar.caughtUp();
    const revoked = await api.issuePassport();
    await api.call({ url: `/v1/passports/${revoked.passport_id}/revoke`, body: {} });
    await sidecar.caughtUp();
    expect(await formOf(await permitted(sidecar))).toBe(2);
    const about = 'the form of records that is asked for cannot be written to disk';
    await until(() => said.includes(about), { what: 'what it says of the disk' });
    await sidecar.close();

    // Nothing but the form is missing there.
    const after = await again({ folder: before.folder, isCutOff: true });
    const { body } = await untilAnswer(
      () => after.check(gateId, revoked.jwt, { permission_key: 'orders:create' }),
      ({ status }) => status === 200,
      { what: 'a decision' },
    );
    expect(body.reason).toBe('passport_revoked');
    const cutOff = await permitted(after);
    rmSync(formFile(before), { recursive: true, force: true });
    rmSync(`${formFile(before)}.new`, { force: true });
    after.resume();
    await after.caughtUp();
    expect(await formOf(cutOff)).toBe(1);
    await until(() => existsSync(formFile(before)), { what: 'the form on disk' });
  },
);
