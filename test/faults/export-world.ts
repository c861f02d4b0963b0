import type { Readable } from 'node:stream';
import { addUnsignedRecords, linkRecords } from '../../bench/harness/unsigned-records.ts';
import {
  attestationExporter,
  type ExportAsked,
  type ExportAttestations,
} from '../../control-plane/attestations/export-attestations.ts';
import type { Database } from '../../control-plane/base/database.ts';
import { exportedLog } from '../../control-plane/log/compare-export.ts';
import { type ExportBounds, snapshotExporter } from '../../control-plane/storage/snapshot-export.ts';
import { limits } from '../../shared/model/limits.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { type Api, startOwnApi } from '../support/service/api.ts';
import { openTransactions, operatorOf } from '../support/service/exports.ts';

/** A control plane with so many records in one chain, and its exports as one process after another asks. */
export interface ExportWorld {
  readonly api: Api;
  exporter(bounds?: Partial<ExportBounds>, sql?: Database): ExportAttestations;
  /** Of the youngest so many records; of all without a number. */
  asked(youngest?: number): ExportAsked;
  /** No transaction of an export is open. */
  none(): Promise<boolean>;
}

export async function exportWorld(records: number): Promise<ExportWorld> {
  const startMs = Date.parse('2026-01-01T00:00:00Z');
  const api = await startOwnApi();
  const owner = await operatorOf(api);
  const { passport_id: passportId } = await api.issuePassport();
  const { gate_id: gateId } = await api.createGate();
  await addUnsignedRecords(api.deps.sql, {
    owner,
    passportIds: [passportId],
    gateIds: [gateId],
    from: 0,
    count: records,
    startMs,
  });
  await linkRecords(api.deps.sql, passportId);
  return {
    api,
    exporter: (bounds = {}, sql = api.deps.sql) =>
      attestationExporter(
        api.deps,
        snapshotExporter(
          { sql, logger: silentLogger },
          { ...limits, atOnceMax: 1, perOwnerMax: limits.exportsPerAccountMax, ...bounds },
        ),
        exportedLog({ witnesses: null }),
      ),
    asked: (youngest) => ({
      owner,
      format: 'jsonl',
      sinceMs: youngest === undefined ? null : ((startMs + records - youngest) as UnixMillis),
      nowMs: api.deps.clock.now(),
    }),
    none: async () => (await openTransactions(api)).length === 0,
  };
}

export const ended = (stream: Readable): Promise<string> =>
  new Promise((resolve) => {
    stream.on('error', (error) => resolve(error.message)).on('end', () => resolve('whole'));
  });
