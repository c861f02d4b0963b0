import { collectGarbage, collectYoungGarbage } from '../../../shared/runtime/collect-garbage.ts';

/** Without what is young and nothing refers to, as V8 sees it. What is left is old from here on. */
export function heapBytesWithoutYoung(): number {
  for (let n = 0; n < 2; n++) collectYoungGarbage();
  return process.memoryUsage().heapUsed;
}

/** The same, without any garbage: so that V8 collects none of it in the middle of what is measured. */
export function heapBytesWhenOld(): number {
  collectGarbage();
  return heapBytesWithoutYoung();
}
