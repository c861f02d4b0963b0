import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import { entryBundle, entryOf } from '../../shared/log/entry.ts';
import { parseTileNumber, tileLevelMax, tileWidth, widthOf } from '../../shared/log/tiles.ts';
import { callerOf } from '../http/caller.ts';
import { IdParams } from '../http/path-id.ts';
import { fairShare } from '../storage/fair-share.ts';
import type { LogDeps } from './deps.ts';
import { logLimits } from './limits.ts';
import { type PublishedLog, readEntries, readPublished, readTiles } from './log-store.ts';
import { proveAttestation } from './prove-head.ts';

const config = { scope: null } as const;
const immutable = 'public, max-age=31536000, immutable';
const octets = 'application/octet-stream';
const plainText = 'text/plain; charset=utf-8';

/** `GET /attestations/:id/proof`, below `/v1`. */
export function logProofRoutes(deps: LogDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/attestations/:id/proof',
      {
        config: { scope: 'attestations:read' },
        schema: { params: IdParams, response: { 200: Type.String() } },
        serializerCompiler: () => String,
      },
      async (request, reply) => {
        const proof = await proveAttestation(deps, callerOf(request), request.params.id);
        return reply.header('cache-control', 'no-store').type(plainText).send(proof);
      },
    );
  };
}

/**
 * The log for everybody, without a key, as C2SP tlog-tiles below `{PUBLIC_URL}/log/`. A tile is served up to
 * the size that was published: what is served once never changes.
 */
export function logRoutes(deps: LogDeps): FastifyPluginAsyncTypebox {
  const reader = new LogReader(deps);
  return async (app) => {
    app.get('/log/checkpoint', { config }, async (_request, reply) => {
      const log = await reader.published();
      if (log?.published == null) throw notThere('The log has no checkpoint yet. Try again shortly.');
      return reply.header('cache-control', 'no-store').type(plainText).send(log.published);
    });
    app.get<{ Params: { '*': string } }>('/log/tile/*', { config }, async (request, reply) => {
      const asked = parseTilePath(request.params['*']);
      const bytes = asked === null ? null : await reader.tile(asked);
      if (bytes === null) throw notThere('The published log has no such tile.');
      return reply.header('cache-control', immutable).type(octets).send(bytes);
    });
  };
}

const notThere = (message: string): ApiError => new ApiError('route_not_found', { message });

interface AskedTile {
  /** Null: of entries. */
  readonly level: number | null;
  readonly number: number;
  /** Of a partial tile; else 256. */
  readonly width: number;
}

/** `<L>/<N>[.p/<W>]`, with `entries` for `<L>`. */
function parseTilePath(path: string): AskedTile | null {
  const [, kind = '', numberPath = '', widthText] =
    /^(entries|\d{1,2})\/((?:x\d{3}\/)*\d{3})(?:\.p\/([1-9]\d{0,2}))?$/.exec(path) ?? [];
  const number = parseTileNumber(numberPath);
  const level = kind === 'entries' ? null : Number(kind);
  const width = widthText === undefined ? tileWidth : Number(widthText);
  if (number === null || (widthText !== undefined && width >= tileWidth)) return null;
  if (level !== null && (level > tileLevelMax || String(level) !== kind)) return null;
  return { level, number, width };
}

class LogReader {
  readonly #deps: LogDeps;
  readonly #share = fairShare<'everybody'>({
    atOnceMax: logLimits.readsAtOnceMax,
    perOwnerMax: logLimits.readsAtOnceMax,
    waitingPerOwnerMax: logLimits.readsWaitingMax,
  });
  /** Full tiles, the one that was asked for last at the end. */
  readonly #kept = new Map<string, Uint8Array>();
  #published: { readonly log: PublishedLog | null; readonly atMs: number } | null = null;
  #reading: Promise<PublishedLog | null> | null = null;

  constructor(deps: LogDeps) {
    this.#deps = deps;
  }

  /** As it was `checkpointKeptMs` ago or later; one read at a time. */
  async published(): Promise<PublishedLog | null> {
    const nowMs = this.#deps.clock.monotonic();
    const known = this.#published;
    if (known !== null && nowMs - known.atMs < logLimits.checkpointKeptMs) return known.log;
    this.#reading ??= this.#share('everybody', () => readPublished(this.#deps.sql))
      .then((log) => {
        this.#published = { log, atMs: nowMs };
        return log;
      })
      .finally(() => {
        this.#reading = null;
      });
    return this.#reading;
  }

  /** Null: the tree that was published has no such tile, or a narrower one. */
  async tile({ level, number, width }: AskedTile): Promise<Uint8Array | null> {
    const log = await this.published();
    if (log === null) return null;
    const name = { level: level ?? 0, number };
    if (widthOf(name, log.publishedSize) < width) return null;
    const key = `${log.log}/${level}/${number}`;
    const kept = this.#kept.get(key);
    if (kept !== undefined) {
      this.#kept.delete(key);
      this.#kept.set(key, kept);
      return level === null
        ? kept.subarray(0, width * (kept.length / tileWidth))
        : kept.subarray(0, width * 32);
    }
    const bytes = await this.#share('everybody', () => this.#read(log, { level, number, width }));
    if (bytes !== null && width === tileWidth) this.#keep(key, bytes);
    return bytes;
  }

  async #read(
    { log, publishedSize }: PublishedLog,
    { level, number, width }: AskedTile,
  ): Promise<Uint8Array | null> {
    const { sql } = this.#deps;
    if (level === null) {
      const from = number * tileWidth;
      return entryBundle((await readEntries(sql, log, { from, to: from + width })).map(entryOf));
    }
    const tiles = await readTiles(sql, log, [{ level, number }], publishedSize);
    return tiles.get(`${level}/${number}`)?.subarray(0, width * 32) ?? null;
  }

  #keep(key: string, bytes: Uint8Array): void {
    this.#kept.set(key, Buffer.from(bytes));
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > logLimits.tilesKeptMax && oldest !== undefined) this.#kept.delete(oldest);
  }
}
