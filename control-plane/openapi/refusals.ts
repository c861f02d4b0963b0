import { ApiError, renderError } from '../../shared/errors/api-error.ts';
import { catalogue, type ErrorCode } from '../../shared/errors/catalogue.ts';
import type { HeaderName } from '../http/operation.ts';
import type { Answer, Reference } from './document.ts';
import { headerReferences, rateLimitHeaders } from './headers.ts';

/** What the statuses of refusals are called (contract §12). */
const statusNames: Readonly<Record<number, string>> = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  409: 'Conflict',
  412: 'PreconditionFailed',
  429: 'RateLimited',
  500: 'InternalError',
  503: 'Unavailable',
};

/** What an example needs and nobody can know beforehand. */
const exampleRequestId = 'req_01m7w73a5pffzt5jwz6hbpmzxj';

/** The refusals of a document: each set of codes is written out once, and referred to. */
export interface Refusals {
  /** All that were asked for so far. */
  readonly components: Readonly<Record<string, Answer>>;
  refer(status: number, codes: readonly ErrorCode[]): Reference;
}

export function refusals(): Refusals {
  const components: Record<string, Answer> = {};
  return {
    components,
    refer: (status, codes) => {
      const name = nameOf(status, codes);
      components[name] ??= refusal(status, codes);
      return { $ref: `#/components/responses/${name}` };
    },
  };
}

/** `NotFound.gate_not_found`; the status alone where its codes are the same everywhere. */
function nameOf(status: number, codes: readonly ErrorCode[]): string {
  const name = statusNames[status] ?? String(status);
  const all = Object.entries(catalogue).filter(([, row]) => row.status === status);
  return all.length === codes.length ? name : [name, ...codes].join('.');
}

function refusal(status: number, codes: readonly ErrorCode[]): Answer {
  const examples = codes.map((code) => {
    const { message } = catalogue[code];
    return [code, { summary: message, value: renderError(new ApiError(code), exampleRequestId) }] as const;
  });
  return {
    description: codes.map((code) => `\`${code}\`: ${catalogue[code].message}`).join('\n\n'),
    headers: headerReferences(refusalHeaders(status)),
    content: {
      'application/json': {
        schema: { $ref: '#/components/schemas/Error' },
        examples: Object.fromEntries(examples),
      },
    },
    'x-error-codes': codes,
  };
}

function refusalHeaders(status: number): HeaderName[] {
  if (status === 401) return ['X-Request-Id', 'WWW-Authenticate'];
  if (status === 429 || status === 503) return ['X-Request-Id', ...rateLimitHeaders, 'Retry-After'];
  return ['X-Request-Id', ...rateLimitHeaders];
}
