import { readFileSync, statSync } from 'node:fs';
import type { Logger } from '../shared/runtime/logger.ts';
import { proxyLimits } from './limits.ts';

/**
 * The passport in a file, read again when the file has changed, so that a new passport needs no restart.
 * While the file cannot be read, or is empty, there is none, and calls are refused.
 */
export function passportInFile(path: string, logger: Logger): () => string | undefined {
  let seen = '';
  let token: string | undefined;
  return () => {
    try {
      const { mtimeMs, ctimeMs, size, ino } = statSync(path);
      const state = [mtimeMs, ctimeMs, size, ino].join();
      if (state === seen) return token;
      if (size > proxyLimits.passportFileBytesMax) throw new Error('the file is too large for a passport');
      token = readFileSync(path, 'utf8').trim() || undefined;
      seen = state;
    } catch (error) {
      logger.warn({ err: error }, 'the passport file cannot be read');
      token = undefined;
      seen = '';
    }
    return token;
  };
}
