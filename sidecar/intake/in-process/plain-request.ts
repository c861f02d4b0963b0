import { ApiError, invalidRequest } from '../../../shared/errors/api-error.ts';
import { limits } from '../../../shared/model/limits.ts';

/**
 * The request as `JSON.parse(JSON.stringify(request))` would have it, so that its hash is that of the same
 * request over HTTP. A copy: what the program changes later is not what was decided about. Throws
 * `invalid_request` for what has no JSON form, `body_too_large` for more than `limits.bodyBytesMax`
 * characters of names and texts, and whatever a getter or `toJSON` of the program throws.
 *
 * What `assertSafeJson` refuses is copied as it is (`__proto__`, numbers that are not finite), nesting down
 * to the level that it refuses.
 */
export function plainRequest(request: unknown): Record<string, unknown> {
  const copy = new Copier().copy(request, 1);
  if (typeof copy !== 'object' || copy === null || Array.isArray(copy))
    throw invalidRequest('request', 'request must be an object.');
  return copy as Record<string, unknown>;
}

class Copier {
  #charsLeft: number = limits.bodyBytesMax;

  /** `depth`: objects and arrays around the value, as in the body of a check. Undefined: it is left out. */
  copy(given: unknown, depth: number): unknown {
    const value = hasJsonForm(given) ? given.toJSON('') : given;
    switch (typeof value) {
      case 'string':
        this.#count(value.length);
        return value;
      case 'object':
        if (value === null) return null;
        return depth > limits.jsonDepthMax ? {} : this.#copyObject(value, depth + 1);
      case 'number':
        // JSON.stringify writes -0 as 0.
        return value === 0 ? 0 : value;
      case 'boolean':
        return value;
      case 'bigint':
        throw invalidRequest('request', 'A bigint has no JSON form: write it as a string.');
      default:
        return undefined;
    }
  }

  #copyObject(value: object, depth: number): unknown {
    this.#count(2);
    if (Array.isArray(value)) {
      this.#count(value.length);
      return Array.from(value, (item) => this.copy(item, depth) ?? null);
    }
    const names = Object.keys(value);
    // Before anything is copied: a body of somebody else's may have a million of them.
    this.#count(names.length);
    // As a whole, so that it keeps the shape that V8 knows: member by member takes several times as long.
    const copied: Record<string, unknown> = { ...value };
    for (const name of names) {
      const member = this.copy(copied[name], depth);
      // An own member: also `__proto__` is replaced, and no prototype set.
      if (!Object.is(member, copied[name])) copied[name] = member;
      if (member === undefined) delete copied[name];
      else this.#count(name.length);
    }
    return copied;
  }

  #count(chars: number): void {
    this.#charsLeft -= chars;
    if (this.#charsLeft < 0) {
      const message = `A request must be at most ${limits.bodyBytesMax} characters.`;
      throw new ApiError('body_too_large', { message });
    }
  }
}

const hasJsonForm = (value: unknown): value is { toJSON(name: string): unknown } =>
  typeof value === 'object' && value !== null && 'toJSON' in value && typeof value.toJSON === 'function';
