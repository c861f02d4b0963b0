import { setTimeout as pause } from 'node:timers/promises';
import type { DatabaseAnswer } from '../cli/base/host.ts';
import { connect } from '../control-plane/storage/connect.ts';
import { must } from '../shared/errors/assert.ts';
import { secondMs } from '../shared/model/time.ts';

/** Its version and its clock, for commands, which import no other program. */
export async function askDatabase(url: string, answerMsMax: number): Promise<DatabaseAnswer> {
  const sql = connect({ url, connectionsMax: 1, silenceMsMax: answerMsMax });
  try {
    const asked = sql<DatabaseAnswer[]>`
      SELECT current_setting('server_version') AS version, (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS "nowMs"`;
    const rows = await Promise.race([asked, pause(answerMsMax).then(() => null)]);
    if (rows === null) throw new Error(`no answer within ${answerMsMax / secondMs} s`);
    return must(rows[0], 'a SELECT without FROM has a row');
  } finally {
    await sql.end({ timeout: 1 }).catch(() => null);
  }
}
