import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Authority {
  /** Path of its certificate, as PEM. */
  readonly file: string;
  /** A certificate for these names, such as `DNS:localhost` or `IP:127.0.0.1`, and its key; as PEM. */
  issue(...names: readonly string[]): { readonly cert: string; readonly key: string };
}

/** A certificate authority of this test, by openssl, that keeps its files in the folder. */
export function authority(folder: string, name: string): Authority {
  const path = (ending: string) => join(folder, `${name}${ending}`);
  const openssl = (...args: readonly string[]) => execFileSync('openssl', args, { stdio: 'pipe' });
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-noenc'];
  const subject = ['-subj', `/CN=${name}`];
  openssl(
    ...['req', '-x509', ...newKey, ...subject, '-days', '2'],
    ...['-keyout', path('.key'), '-out', path('.crt')],
  );
  let issued = 0;
  return {
    file: path('.crt'),
    issue: (...names) => {
      const number = issued++;
      const own = (ending: string) => path(`-${number}${ending}`);
      openssl('req', ...newKey, '-subj', '/CN=server', '-keyout', own('.key'), '-out', own('.csr'));
      writeFileSync(own('.ext'), `subjectAltName=${names.join(',')}\n`);
      openssl(
        ...['x509', '-req', '-in', own('.csr'), '-CA', path('.crt'), '-CAkey', path('.key')],
        ...['-CAcreateserial', '-days', '2', '-extfile', own('.ext'), '-out', own('.crt')],
      );
      return { cert: readFileSync(own('.crt'), 'utf8'), key: readFileSync(own('.key'), 'utf8') };
    },
  };
}
