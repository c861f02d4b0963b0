/**
 * A program: members come to an old map and go again, while the young generation of V8 is collected. Prints
 * how much memory that leaves behind, and how much the members had.
 */
import { PassingMap } from '../../../shared/runtime/passing-map.ts';
import { heapBytesWhenOld, heapBytesWithoutYoung } from './heap-bytes.ts';

const members = 20_000;
const atOnce = 32;
const textChars = 500;

const map = new PassingMap<number, string>();
for (let n = -atOnce; n < 0; n++) map.set(n, '');
// Its table is old from here on.
const before = heapBytesWhenOld();
for (let n = 0; n < members; n++) {
  map.set(n, Buffer.alloc(textChars, `${n} `).toString('latin1'));
  map.delete(n - atOnce);
  if (n % 5_000 === 0) heapBytesWithoutYoung();
}
const kept = heapBytesWithoutYoung() - before;
console.log(JSON.stringify({ kept, given: members * textChars }));
