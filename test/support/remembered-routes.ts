/**
 * A program: addresses of gates are remembered that came with long queries, as `node:http` gives them. Prints
 * how much memory that leaves behind, and how much the targets had.
 */
import type { UnixMillis } from '../../shared/model/time.ts';
import { systemRandom } from '../../shared/runtime/random.ts';
import { KnownRoutes } from '../../sidecar/http/known-routes.ts';
import { httpLimits } from '../../sidecar/http/limits.ts';
import { heapBytesWhenOld } from './heap-bytes.ts';

const queryChars = 12_000;
const random = systemRandom();
const routes = new KnownRoutes();

const ask = (n: number): void => {
  const gateId = random.newId('gate', n as UnixMillis);
  const target = Buffer.from(`/v1/gates/${gateId}/check?${'x'.repeat(queryChars)}`).toString('latin1');
  routes.of({ method: 'POST', path: target.slice(0, target.indexOf('?')) });
};

const before = heapBytesWhenOld();
for (let n = 0; n < httpLimits.knownRoutesMax; n++) ask(n);
const kept = heapBytesWhenOld() - before;
// Referred to until here.
if (routes.size !== httpLimits.knownRoutesMax) throw new Error('not all addresses were remembered');
console.log(JSON.stringify({ kept, given: httpLimits.knownRoutesMax * queryChars }));
