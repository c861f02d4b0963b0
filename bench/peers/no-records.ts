import { register } from 'node:module';

/**
 * For `node --import`: puts `unwritten-spool` in the place of the spool of the program that is started, which
 * otherwise runs as it is.
 */
const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
const replacement = new URL(`./unwritten-spool.${extension}`, import.meta.url).href;
const hooks = `export async function resolve(specifier, context, next) {
  const isSpool = specifier.endsWith('/attest/spool.${extension}') && context.parentURL !== '${replacement}';
  return next(isSpool ? '${replacement}' : specifier, context);
}`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);
