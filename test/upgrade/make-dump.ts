import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { connect } from '../../control-plane/storage/connect.ts';
import { hourMs } from '../../shared/model/time.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { roomInWindow } from '../support/base/room-in-window.ts';
import { testDatabaseServer } from '../support/database/postgres.ts';
import { startReceiver } from '../support/peers/receiver.ts';
import { startTestProvider } from '../support/peers/test-provider.ts';
import { installation } from '../support/programs/installation.ts';
import { programsIn } from '../support/programs/programs.ts';
import { dumpedTables, dumpRows, tablesOf } from './dump.ts';
import { fillHistory, fillPast } from './filled-history.ts';
import { fillWorld, publicUrl } from './filled-world.ts';

/** Makes the dump of a version, as README.md describes: `npx tsx test/upgrade/make-dump.ts <checkout>`. */
const [checkout] = process.argv.slice(2);
if (checkout === undefined) throw new Error('usage: make-dump.ts <built checkout of the version>');
const { version } = JSON.parse(await readFile(join(checkout, 'package.json'), 'utf8'));
// Limits by the day are to count the same from the first request to the end of the upgrade test.
await roomInWindow('day', hourMs);

const secrets = {
  adminKey: 'at_live_upgrade0test0admin0key0upgrade0test',
  masterKey: Buffer.alloc(32, 7).toString('base64url'),
};
const server = await testDatabaseServer();
const provider = await startTestProvider({ origin: publicUrl });
const programs = programsIn(join(checkout, 'dist'));
const install = (more: Readonly<Record<string, string>>) =>
  installation(programs, {
    databaseUrl: server.url,
    secrets,
    env: {
      ...{ PUBLIC_URL: publicUrl, WEBHOOK_ALLOW_PRIVATE: '1' },
      ...{ OIDC_ISSUER: provider.settings.issuer, OIDC_ALLOW_PRIVATE: '1' },
      ...{ OIDC_CLIENT_ID: provider.settings.clientId, OIDC_CLIENT_SECRET: provider.settings.clientSecret },
      ...more,
    },
  });
const past = await fillPast(server.url, install);
const world = await install({});
const receiver = await startReceiver();
try {
  const before = await fillHistory(world, { programs, databaseUrl: server.url, publicUrl });
  const known = await fillWorld(world, { ...before, receiver, past });
  // In no order: so it stays among the replicas.
  await before.controlPlane.stop('SIGKILL');
  const sql = connect({ url: server.url, connectionsMax: 1 });
  const dump = await dumpRows(sql);
  const empty = (await tablesOf(sql)).filter((table) => !dumpedTables(dump).includes(table));
  await sql.end();
  if (empty.length > 0) throw new Error(`fillWorld leaves these tables empty: ${empty.join(', ')}`);
  const { answers, ...others } = known;
  const lines = Object.entries(answers).map((answer) =>
    answer.map((each) => JSON.stringify(each)).join(': '),
  );
  const about = { version, dumpedAtMs: systemClock.now(), ...secrets, known: { answers: {}, ...others } };
  const text = JSON.stringify(about, null, 1).replace('{}', () => `{\n${lines.join(',\n')}\n}`);
  await writeFile(new URL(`${version}.sql`, import.meta.url), dump);
  await writeFile(new URL(`${version}.json`, import.meta.url), `${text}\n`);
} finally {
  await world.close();
  await receiver.close();
  await provider.close();
  await server.stop();
}
