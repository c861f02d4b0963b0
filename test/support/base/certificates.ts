import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** A CA of a test's own, in a folder, by openssl. */
export interface TestCa {
  /** Its certificate, as PEM. */
  readonly file: string;
  /**
   * A certificate for these names, as in subjectAltName (`DNS:localhost`, `IP:127.0.0.1`), and its key: the
   * paths of both.
   */
  issue(...names: readonly string[]): { readonly cert: string; readonly key: string };
}

export function testCa(folder: string, name = 'ca'): TestCa {
  const path = (ending: string) => join(folder, `${name}${ending}`);
  const openssl = (...args: readonly string[]) => execFileSync('openssl', args, { stdio: 'pipe' });
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  const subject = ['-subj', `/CN=${name}`];
  openssl(
    ...['req', '-x509', ...newKey, ...subject, '-days', '2'],
    ...['-keyout', path('.key'), '-out', path('.crt')],
  );
  let issued = 0;
  return {
    file: path('.crt'),
    issue: (...names) => {
      const number = ++issued;
      const own = (ending: string) => path(`-${number}${ending}`);
      openssl('req', ...newKey, '-subj', '/CN=server', '-keyout', own('.key'), '-out', own('.csr'));
      writeFileSync(own('.ext'), `subjectAltName=${names.join(',')}\n`);
      openssl(
        ...['x509', '-req', '-in', own('.csr'), '-CA', path('.crt'), '-CAkey', path('.key')],
        ...['-CAcreateserial', '-days', '2', '-extfile', own('.ext'), '-out', own('.crt')],
      );
      return { cert: own('.crt'), key: own('.key') };
    },
  };
}
