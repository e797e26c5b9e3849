//! A kubeconfig for this server.

/// The text of it: one cluster, one context, a user without credentials.
pub(crate) fn text(url: &str) -> String {
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: hark
  cluster:
    server: {url}
users:
- name: hark
  user: {{}}
contexts:
- name: hark
  context:
    cluster: hark
    user: hark
    namespace: default
current-context: hark
"
    )
}
