-- A subject that is empty, too long or not ASCII names nobody (OpenID Connect Core §2): whoever came second
-- with an empty one was logged in as the first. Their users are linked again at their next login.
DELETE FROM oidc_identities WHERE subject !~ '^[!-~]([ -~]{0,253}[!-~])?$';
