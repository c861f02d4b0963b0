import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Contestant } from '../harness/contestant.ts';
import { measuredCore } from '../harness/cores.ts';
import { findProgram, freePort, start } from '../harness/programs.ts';
import type { Sent } from '../harness/requests.ts';

/** More than a run can send: what is measured is a PERMIT. */
const requestsPerMinuteMax = 2_000_000_000;

export const haproxyMissing = 'haproxy is not installed (Debian: apt-get install haproxy).';

export const hasHaproxy = (): boolean => findProgram('haproxy') !== null;

export interface Haproxy extends Omit<Contestant, 'load' | 'target' | 'name'> {
  readonly origin: string;
  /** The same request, with an ES256 token of the same claims where HAProxy looks for one. */
  withToken(sent: Sent): Sent;
}

/**
 * HAProxy with one thread on the measured core: verifies the ES256 signature of a bearer token, counts the
 * request of its subject in a stick table, refuses past a limit, and answers a constant.
 */
export async function startHaproxy(options: {
  readonly folder: string;
  readonly answer: string;
}): Promise<Haproxy> {
  const folder = join(options.folder, 'haproxy');
  mkdirSync(folder);
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  writeFileSync(join(folder, 'key.pem'), publicKey.export({ type: 'spki', format: 'pem' }));
  writeFileSync(join(folder, 'answer.json'), options.answer);
  const port = await freePort();
  writeFileSync(join(folder, 'haproxy.cfg'), configuration(folder, port));
  const program = start({
    core: measuredCore,
    command: [findProgram('haproxy') ?? 'haproxy', '-db', '-V', '-f', join(folder, 'haproxy.cfg')],
  });
  const origin = `http://127.0.0.1:${port}`;
  return {
    program,
    origin,
    withToken: (sent) => {
      const { passport } = JSON.parse(sent.body) as { passport: string };
      const Authorization = `Bearer ${es256(passport, privateKey)}`;
      return {
        ...sent,
        url: origin + new URL(sent.url).pathname,
        headers: { ...sent.headers, Authorization },
      };
    },
    finish: null,
    does: 'checks algorithm and ES256 signature of the token on each request, counts its subject in a stick table, answers a constant as long as ours',
    doesNot:
      'read the body, times, revocation, permission, domain, money, record of the decision; a token that it has verified it verifies again',
  };
}

const configuration = (folder: string, port: number): string => `
global
  nbthread 1
  maxconn 4096
defaults
  mode http
  timeout client 30s
  timeout server 30s
  timeout connect 5s
frontend bench
  bind 127.0.0.1:${port}
  stick-table type string len 64 size 1m expire 120s store http_req_rate(60s)
  http-request set-var(txn.token) http_auth_bearer
  http-request set-var(txn.alg) var(txn.token),jwt_header_query('$.alg')
  http-request deny deny_status 401 unless { var(txn.alg) -m str ES256 }
  http-request deny deny_status 401 unless { var(txn.token),jwt_verify(txn.alg,"${folder}/key.pem") 1 }
  http-request track-sc0 var(txn.token),jwt_payload_query('$.sub')
  http-request deny deny_status 429 if { sc_http_req_rate(0) gt ${requestsPerMinuteMax} }
  http-request return status 200 content-type "application/json; charset=utf-8" file ${folder}/answer.json
`;

/** The claims of a passport in a token that is signed with ES256. */
function es256(passport: string, key: KeyObject): string {
  const [, claims = ''] = passport.split('.');
  const header = Buffer.from(JSON.stringify({ alg: 'ES256', typ: 'JWT' })).toString('base64url');
  const input = `${header}.${claims}`;
  const signature = sign('sha256', Buffer.from(input), { key, dsaEncoding: 'ieee-p1363' });
  return `${input}.${signature.toString('base64url')}`;
}
