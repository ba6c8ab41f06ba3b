#[anarchon::job(every = "1h")]
async fn hourly() {}

#[anarchon::job(every = "7d", offset = "4d")]
async fn mondays() {}

#[anarchon::job(cron = "*/15 8-18 * * MON-FRI")]
async fn office_hours() {}

#[anarchon::job(cron = "0 30 8 ? * 2-6 *", dialect = "quartz", timezone = "Europe/Paris")]
async fn from_quartz() {}

#[anarchon::job(at = "2027-01-01T00:00:00", timezone = "Asia/Tokyo")]
async fn new_year() {}

#[anarchon::job(at = "2027-01-01T00:00:00+09:00")]
async fn new_year_again() {}

fn main() {}
