//! How threads of the application wait for what fault threads do.

use std::sync::PoisonError;
use std::time::Duration;

use super::Pages;
use super::uninterrupted::Uninterrupted;

impl Pages {
    /// Something has happened that an application may wait for.
    pub(super) fn announce(&self) {
        let (lock, condition) = &self.news;
        *lock.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        condition.notify_all();
    }

    /// How much has happened so far.
    pub(super) fn news_so_far(&self) -> u64 {
        let _uninterrupted = Uninterrupted::new();
        *self.news.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something has happened, or for a while.
    pub fn wait_for_news(&self, limit: Duration) {
        self.wait_for_news_after(self.news_so_far(), limit);
    }

    /// Waits until more has happened than this, or for a while.
    pub(super) fn wait_for_news_after(&self, so_far: u64, limit: Duration) {
        let _uninterrupted = Uninterrupted::new();
        let (lock, condition) = &self.news;
        let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = condition.wait_timeout_while(guard, limit, |news| *news == so_far);
    }
}
