"""Functions of frames that read dates: ``joined`` and ``left`` are dates, ``seen`` is text."""

import datetime as dt

import numpy as np
import pandas as pd

START = pd.Timestamp("2020-01-01")
HOLIDAYS = [(1, 1), (5, 17), (12, 25)]
SEASONS = {12: 0, 1: 0, 2: 0, 3: 1, 4: 1, 5: 1, 6: 2, 7: 2, 8: 2, 9: 3, 10: 3, 11: 3}


def calendar(df):
    df = df.copy()
    df["year"] = df["joined"].dt.year
    df["month"] = df["joined"].dt.month
    df["day"] = df["joined"].dt.day
    return df[["year", "month", "day"]]


def clock_time(df):
    stamp = df["joined"]
    return pd.DataFrame({"hour": stamp.dt.hour, "minute": stamp.dt.minute, "s": stamp.dt.second})


def weekday(df):
    return pd.DataFrame({"dow": df["joined"].dt.dayofweek, "wd": df["joined"].dt.weekday})


def weekend(df):
    return df["joined"].dt.dayofweek.isin([5, 6]).astype(int).to_frame("weekend")


def weekend_compared(df):
    return (df["joined"].dt.dayofweek >= 5).to_frame("weekend")


def quarter(df):
    return pd.DataFrame({"q": df["joined"].dt.quarter, "doy": df["joined"].dt.dayofyear})


def iso_week(df):
    return df["joined"].dt.isocalendar().week.astype(int).to_frame("week")


def month_edges(df):
    return pd.DataFrame({
        "first": df["joined"].dt.is_month_start.astype(int),
        "last": df["joined"].dt.is_month_end.astype(int),
    })  # fmt: skip


def days_in_month(df):
    return df["joined"].dt.days_in_month.to_frame("length")


def leap(df):
    return df["joined"].dt.is_leap_year.astype(float).to_frame("leap")


def days_since(df):
    return (df["joined"] - START).dt.days.to_frame("days")


def days_until(df):
    return (pd.Timestamp("2025-06-30") - df["joined"]).dt.days.to_frame("days")


def seconds_since(df):
    return (df["joined"] - START).dt.total_seconds().to_frame("seconds")


def tenure(df):
    days = (df["left"] - df["joined"]).dt.days
    return pd.DataFrame({"days": days, "years": days / 365.25})


def tenure_hours(df):
    return ((df["left"] - df["joined"]).dt.total_seconds() / 3600).to_frame("hours")


def divided_span(df):
    return ((df["left"] - df["joined"]) / pd.Timedelta(days=1)).to_frame("days")


def divided_numpy(df):
    return ((df["left"] - df["joined"]) / np.timedelta64(1, "h")).to_frame("hours")


def parsed(df):
    seen = pd.to_datetime(df["seen"], format="%Y-%m-%d")
    return pd.DataFrame({"month": seen.dt.month, "dow": seen.dt.dayofweek})


def parsed_coerced(df):
    seen = pd.to_datetime(df["seen"], format="%Y-%m-%d", errors="coerce")
    return seen.dt.year.fillna(0).to_frame("year")


def parsed_difference(df):
    seen = pd.to_datetime(df["seen"], format="%Y-%m-%d")
    return (df["left"] - seen).dt.days.to_frame("days")


def parsed_assigned(df):
    df = df.copy()
    df["seen"] = pd.to_datetime(df["seen"], format="%Y-%m-%d")
    for part in ("year", "month", "day"):
        df[f"seen_{part}"] = getattr(df["seen"].dt, part)
    return df.drop(columns=["seen"])[["seen_year", "seen_month", "seen_day"]]


def cyclic_month(df):
    angle = 2 * np.pi * df["joined"].dt.month / 12
    return pd.DataFrame({"sin": np.sin(angle), "cos": np.cos(angle)})


def cyclic_hour(df):
    df = df.copy()
    df["hour"] = df["joined"].dt.hour + df["joined"].dt.minute / 60
    df["sin"] = np.sin(df["hour"] * (2 * np.pi / 24))
    df["cos"] = np.cos(df["hour"] * (2 * np.pi / 24))
    return df[["sin", "cos"]]


def rush_hour(df):
    hour = df["joined"].dt.hour
    return (hour.between(7, 9) | hour.between(16, 18)).astype(int).to_frame("rush")


def part_of_day(df):
    return pd.cut(df["joined"].dt.hour, [-1, 5, 11, 17, 23], labels=False).to_frame("part")


def season(df):
    return df["joined"].dt.month.map(SEASONS).to_frame("season")


def season_formula(df):
    return (df["joined"].dt.month % 12 // 3).to_frame("season")


def after(df):
    return (df["joined"] > "2021-06-01").astype(int).to_frame("after")


def after_timestamp(df):
    return (df["joined"] >= pd.Timestamp(2022, 3, 1)).to_frame("after")


def ordered(df):
    return (df["left"] >= df["joined"]).to_frame("ordered")


def missing_date(df):
    return pd.DataFrame({"open": df["left"].isna().astype(int)})


def filled_date(df):
    return df["left"].fillna(pd.Timestamp("2024-12-31")).dt.year.to_frame("year")


def shifted(df):
    return (df["joined"] + pd.Timedelta(days=30)).dt.month.to_frame("month")


def epoch(df):
    return (df["joined"].astype("int64") // 10**9).to_frame("epoch")


def holiday(df):
    month, day = df["joined"].dt.month, df["joined"].dt.day
    hit = pd.Series(False, index=df.index)
    for m, d in HOLIDAYS:
        hit = hit | ((month == m) & (day == d))
    return hit.to_frame("holiday")


def month_period(df):
    return (df["joined"].dt.year * 12 + df["joined"].dt.month - 2020 * 12).to_frame("months")


def normalized(df):
    return (df["joined"] - df["joined"].dt.normalize()).dt.total_seconds().to_frame("of_day")


def month_name(df):
    return df["joined"].dt.month_name().to_frame("month")


def day_text(df):
    return df["joined"].dt.strftime("%Y-%m").to_frame("month")


def of_datetime(df):
    return (df["joined"] - dt.datetime(2020, 1, 1)).dt.days.to_frame("days")


def applied_month(df):
    return df["joined"].apply(lambda d: d.month).to_frame("month")


ROWS = {
    f.__name__: f
    for f in (
        calendar, clock_time, weekday, weekend, weekend_compared, quarter, iso_week, month_edges,
        days_in_month, leap, days_since, days_until, seconds_since, tenure, tenure_hours,
        divided_span, divided_numpy, parsed, parsed_coerced, parsed_difference, parsed_assigned,
        cyclic_month, cyclic_hour, rush_hour, part_of_day, season, season_formula, after,
        after_timestamp, ordered, missing_date, filled_date, shifted, epoch, holiday,
        month_period, normalized, month_name, day_text, of_datetime, applied_month,
    )
}  # fmt: skip
