import { codeOf } from '../../shared/runtime/system-error.ts';

const codes = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);

/** Whether a file could not grow: the disk is full, or a quota or a limit is met. */
export const isNoRoom = (error: unknown): boolean => codes.has(codeOf(error) ?? '');
